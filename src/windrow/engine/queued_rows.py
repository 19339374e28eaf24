"""The rows that a queue holds, and how a snapshot holds them."""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from windrow.engine.bind import Binding
from windrow.engine.prepare import Packed, rows_of
from windrow.kernels import layout as at
from windrow.kernels import queue as kernel
from windrow.kernels.rows import pack

WORDS = {"tick": at.R_TICK, "stream": at.R_STREAM, "number": at.R_SLOT}  # the others follow from a row's columns
COLUMNS = pa.schema([(name, pa.int64()) for name in (*WORDS, "state")])


@dataclass
class Held:
    """Rows that wait, or were served and not yet handed over: records, what became of each, and their columns."""

    records: np.ndarray
    state: np.ndarray
    tables: list[pa.Table] = field(default_factory=list)
    handed: int = 0  # rows before it are dealt with

    def saved(self, words: int) -> list[pa.Table]:
        """What a snapshot keeps: when and in which order rows came, what became of them, and each stream's columns."""
        columns = [pa.array(self.records[word::words]) for word in WORDS.values()]
        return [pa.table([*columns, pa.array(self.state)], schema=COLUMNS), *self.tables]

    def in_order(self, words: int, now: int, arrived: int) -> bool:
        """Whether rows stand as they came, not later than the clock, and those that were served before the others."""
        tick, time, number = (self.records[word::words] for word in (at.R_TICK, at.R_TIME, at.R_SLOT))
        fine = bool((self.state[1:] <= self.state[:-1]).all()) and bool((tick[1:] >= tick[:-1]).all())
        fine &= bool(((tick >= time) & (tick <= now)).all()) and bool((number[1:] > number[:-1]).all())
        return fine and bool(((number >= 0) & (number < arrived)).all())


def opened(binding: Binding, parts: list[pa.Table]) -> Held:
    """The rows that a snapshot keeps; their records are computed again. Raises ValueError if they are none."""
    lines, *tables = parts
    if not lines.schema.equals(COLUMNS) or any(column.null_count for column in lines.columns):
        raise ValueError("the rows of its queue have other columns")
    for name, table in zip(binding.query.names, tables, strict=True):
        if not table.schema.equals(binding.schemas[name]):
            raise ValueError(f"the rows of {name!r} in its queue have other columns")
    tick, stream, number, state = (column.to_numpy().copy() for column in lines.columns)
    here = bool(((stream >= 0) & (stream < len(tables))).all())
    if not here or np.bincount(stream, minlength=len(tables)).tolist() != [table.num_rows for table in tables]:
        raise ValueError("the rows of its queue do not add up")
    if not np.isin(state, (kernel.WAITING, kernel.SERVED)).all():
        raise ValueError("its queue has rows that neither wait nor were served")
    rows = [rows_of(binding, s, table) for s, table in enumerate(tables)]
    if not all(r.counted.all() for r in rows):
        raise ValueError("its queue has rows without a time")
    packed = Packed(binding, rows, [0] * len(tables))
    order = np.empty(len(stream), np.int64)  # rows of a stream are in their order
    order[np.argsort(stream, kind="stable")] = np.arange(len(stream))
    records = np.zeros(len(stream) * packed.words, np.int64)
    pack(records, order, packed.tick, packed.head, packed.gain, packed.codes, packed.numbers)
    records[at.R_TICK :: packed.words], records[at.R_SLOT :: packed.words] = tick, number
    return Held(records, state, tables)
