"""Preparing rows: Arrow rows become the records that kernels take, or one clear error before anything has changed.

    rows_of   code: times, keys, numbers, costs; rows that can never match are found here, to be ignored
    judged    find who is late, when it is known where the watermark stands

What is coded does not depend on the watermark, so the rows of whole tables are coded once and cut afterwards. Late and
ignored rows are counted, not joined.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.engine.bind import Binding
from windrow.engine.filters import passes
from windrow.engine.intake import as_table
from windrow.engine.ranges import IDENTITY, IN_ORDER, Number
from windrow.errors import InputError, KeyTypeError
from windrow.kernels import layout as at
from windrow.kernels.rows import pack
from windrow.state.coding import (
    common_key_type,
    family,
    key_codes,
    number_codes,
    ordered_codes,
    row_bytes,
    times,
    value_codes,
    value_type,
)
from windrow.state.columns import empty_table

PIECE_ROWS = 1 << 15  # records packed at a time: they stay in the cache between packing and joining
PAYLOAD_CHARGE = 1.25  # what Payload.tidy lets lie dead is charged too
LARGEST_COST = 2**31


@dataclass
class Rows:
    """One stream's rows of a push, of a whole table, or a shard's part of them, as arrays."""

    table: pa.Table
    time: np.ndarray
    keep: np.ndarray  # rows that are not late, as far as is known, and may match
    counted: np.ndarray  # rows that have a time and are not late, as far as is known
    codes: list[np.ndarray]
    numbers: list[np.ndarray]
    cost: np.ndarray
    gain: np.ndarray
    timed: np.ndarray | None = None  # rows that have a time (None: all)
    keyed: tuple[np.ndarray | None, ...] = ()  # by code, rows that have the key (None: all): for routing
    place: np.ndarray | None = None  # where the rows stand in the table (None: they are all of it, in its order)
    refused: np.ndarray | None = None  # rows that a filter refuses and that are residents all the same (None: no such)
    deletes: np.ndarray | None = None  # rows that delete others (None: the stream brings no deletions)

    def part(self, where: np.ndarray) -> "Rows":
        """Some of the rows, in any order; the table is not copied."""
        return self._picked(where, self.table, where if self.place is None else self.place[where])

    def between(self, start: int, end: int) -> "Rows":
        """The rows from one to another; nothing is copied."""
        if self.place is not None:
            return self._picked(slice(start, end), self.table, self.place[start:end])
        return self._picked(slice(start, end), self.table.slice(start, end - start), None)

    def _picked(self, where: Any, table: pa.Table, place: np.ndarray | None) -> "Rows":
        arrays = {name: getattr(self, name)[where] for name in ("time", "keep", "counted", "cost")}
        return Rows(
            table,
            **arrays,
            codes=[code[where] for code in self.codes],
            numbers=[number[where] for number in self.numbers],
            gain=self.gain[where] if len(self.gain) else self.gain,
            timed=None if self.timed is None else self.timed[where],
            keyed=tuple(None if has is None else has[where] for has in self.keyed),
            place=place,
            refused=None if self.refused is None else self.refused[where],
            deletes=None if self.deletes is None else self.deletes[where],
        )

    def judged(self, watermark: int) -> "Rows":
        """The rows, of which those behind a watermark are late."""
        if watermark == at.LOW:
            return self
        counted = self.counted & (self.time >= watermark)
        refused = None if self.refused is None else self.refused & counted
        deletes = None if self.deletes is None else self.deletes & counted
        return replace(self, counted=counted, keep=self.keep & counted, refused=refused, deletes=deletes)

    def charged(self, binding: Binding, stream: int) -> "Rows":
        """The rows with what they cost, and what they are worth, where the query has another budget or policy."""
        found = costs(binding, stream, self.table), gains(binding, stream, self.table)
        cost, gain = found if self.place is None else (each[self.place] if len(each) else each for each in found)
        return replace(self, cost=cost, gain=gain)

    @property
    def places(self) -> np.ndarray:
        """Where each row stands in the table."""
        return np.arange(len(self.time)) if self.place is None else self.place

    def kept_in(self, join: int | None) -> np.ndarray:
        """Which of the rows that are kept can match in one of several joins; None where there is one."""
        return self.keep if join is None else self.keep & (self.numbers[0] >> join & 1 != 0)

    def chosen(self) -> Any:
        """An index of the rows that have a time and are not late."""
        return slice(None) if self.counted.all() else np.flatnonzero(self.counted)

    @property
    def is_late(self) -> np.ndarray:
        """Which rows came too late."""
        return ~self.counted if self.timed is None else self.timed & ~self.counted

    @property
    def late(self) -> int:
        """How many rows came too late."""
        return int(self.is_late.sum())

    @property
    def ignored(self) -> int:
        """How many rows can never match."""
        refused = 0 if self.refused is None else int(self.refused.sum())
        return len(self.time) - self.late - int(self.keep.sum()) - refused


def tables(binding: Binding, batches: Mapping[str, Any]) -> list[pa.Table]:
    """One table per stream, with the bound columns and types."""
    return [fitted(binding.schemas[name], batches.get(name), name) for name in binding.query.names]


def fitted(schema: pa.Schema, data: Any, stream: str) -> pa.Table:
    """The rows of a stream as a table with the columns and types that earlier ones had."""
    if data is None:
        return empty_table(schema)
    table = as_table(data, stream)
    if table.schema.equals(schema):
        return table
    names = set(table.column_names)
    for field in schema:
        if field.name not in names:
            raise InputError(f"stream {stream!r}: this push lacks the column {field.name!r} that earlier ones had")
        type_ = table.schema.field(field.name).type
        if type_ != field.type:
            if not pa.types.is_null(type_):
                raise InputError(
                    f"stream {stream!r}: column {field.name!r} was {field.type} and is now {type_}: cast it"
                )
            place = table.column_names.index(field.name)
            table = table.set_column(place, field, pa.nulls(table.num_rows, field.type))
    return pa.Table.from_arrays(table.select(schema.names).columns, schema=schema)


def rows_of(binding: Binding, stream: int, table: pa.Table, first_rank: int = 0) -> Rows:
    """One stream's rows, coded; none of them is late yet."""
    spec, name = binding.query.streams[stream], binding.query.names[stream]
    n = table.num_rows
    timed = None
    if binding.domain.kind == "rank":
        time = np.arange(first_rank, first_rank + n, dtype=np.int64)
    else:
        time, timed = times(table[spec.time], binding.domain, f"{name}.{spec.time}")
    counted = np.ones(n, np.bool_) if timed is None else timed
    keep = counted.copy()
    passed = np.ones(n, np.bool_)
    for filter_ in spec.where:
        passed &= passes(filter_, table[filter_.column], name)
    if binding.plan.joins is None:
        codes, keyed = _codes(binding, stream, table)
        numbers, present = _numbers(binding, stream, table)
        for valid in (*keyed, present):
            if valid is not None:
                keep &= valid
    else:
        keyed = ()
        codes, numbers = _words_by_join(binding, stream, table)
        keep &= numbers[0] != 0
    release = binding.plan.release
    refused = keep & ~passed if release is not None and release.remembers[stream] and spec.where else None
    deletes = None
    if spec.sign is not None:
        deletes = keep & negative(table[spec.sign], f"{name}.{spec.sign}")
        keep &= ~deletes
        refused = None if refused is None else refused & ~deletes
    keep &= passed
    charges, worth = costs(binding, stream, table), gains(binding, stream, table)
    return Rows(
        table, time, keep, counted, codes, numbers, charges, worth, timed, keyed, refused=refused, deletes=deletes
    )


def _codes(binding: Binding, stream: int, table: pa.Table) -> tuple[list[np.ndarray], tuple[np.ndarray | None, ...]]:
    """Codes in each directory of the stream, and which rows have a key there (None: all)."""
    found = [codes_in(binding, stream, int(d), table) for d in binding.plan.classes[stream] if d >= 0]
    return [code for code, _ in found], tuple(valid for _, valid in found)


def codes_in(binding: Binding, stream: int, d: int, table: pa.Table) -> tuple[np.ndarray, np.ndarray | None]:
    """Codes of a stream's rows in a directory, and which rows have a key (None: all)."""
    directory = binding.directories[d]
    names = directory.columns[stream]
    where = [f"{binding.query.names[stream]}.{c}" for c in names]
    code, valid = key_codes([table[c] for c in names], directory.types, where=where, mask=binding.code_mask)
    words = code.view(np.int64)
    if valid is not None and (binding.plan.joins is not None or binding.plan.releases):
        words = np.where(valid, words, at.NO_KEY)  # the row may match in another join, or tell what has come
    return words, valid


def _numbers(binding: Binding, stream: int, table: pa.Table) -> tuple[list[np.ndarray], np.ndarray]:
    found, keep = [], np.ones(table.num_rows, np.bool_)
    for number in binding.numbers[stream]:
        if number.domain == IDENTITY:
            found.append(identities(binding, stream, table))
            continue
        bits, valid = number_bits(binding, stream, number, table)
        found.append(bits)
        if valid is not None and number.domain != IN_ORDER:
            keep &= valid
        if number.refuses_nan:
            keep &= ~np.isnan(bits.view(np.float64))
    return found, keep


def negative(column: Any, where: str) -> np.ndarray:
    """Which numbers of a column of signs are below zero; null is not."""
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise InputError(f"{where} is a column of signs, which are numbers such as 1 and -1, and it has {column.type}")
    return np.asarray(pc.fill_null(pc.less(column, 0), False)).astype(np.bool_)


def identities(binding: Binding, stream: int, table: pa.Table) -> np.ndarray:
    """What deletions name rows by: a code of the columns that identify them. Nulls are equal here."""
    spec = binding.query.streams[stream]
    return row_codes(table, spec.identified_by(table.column_names), f"{spec.name}.")


def row_codes(table: pa.Table, names: Sequence[str], whose: str = "") -> np.ndarray:
    """A code for the values of some columns, the same for rows in which they are equal; null is a value here."""
    if not names:
        return np.zeros(table.num_rows, np.int64)
    where = [f"{whose}{name}" for name in names]
    types = []
    for name, place in zip(names, where, strict=True):
        kind = table.schema.field(name).type
        if family(value_type(kind)) is None:
            raise KeyTypeError(f"{place} has type {kind}, and such values cannot be compared: cast them")
        types.append(common_key_type([kind], [place]))
    return value_codes([table[name] for name in names], types, where=where).view(np.int64)


def _words_by_join(binding: Binding, stream: int, table: pa.Table) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Codes and numbers of rows that take part in several joins; the first number has a bit for each join that a row
    can match in: those of its stream in which no key and no number is missing."""
    joins = binding.plan.joins
    assert joins is not None
    bits = np.full(table.num_rows, sum(1 << j for j, streams in enumerate(joins.members) if stream in streams))
    codes, numbers = [], [bits]
    for d in binding.plan.classes[stream]:
        if d >= 0:
            code, valid = codes_in(binding, stream, int(d), table)
            codes.append(code)
            if valid is not None:
                bits[~valid] &= ~(1 << joins.directories[d])
    for number in binding.numbers[stream][1:]:
        words, valid = number_bits(binding, stream, number, table)
        numbers.append(words)
        if valid is not None:
            bits[~valid] &= ~(1 << number.join)
        if number.refuses_nan:
            bits[np.isnan(words.view(np.float64))] &= ~(1 << number.join)
    return codes, numbers


def number_bits(binding: Binding, stream: int, number: Number, table: pa.Table) -> tuple[np.ndarray, np.ndarray | None]:
    """A value column of a stream's rows as words, and which rows have a value (None: all)."""
    where = f"{binding.query.names[stream]}.{number.column}"
    if number.domain == IN_ORDER:
        bits, valid = number_codes(table[number.column], number.type, number.counts_as, where)  # type: ignore[arg-type]
        bits = ordered_codes(bits, number.counts_as)  # type: ignore[arg-type]
        return (bits if valid is None else np.where(valid, bits, at.LOW)), valid
    if number.domain == "code":
        code, valid = key_codes([table[number.column]], [number.type], where=[where])
        return code.view(np.int64), valid
    return number_codes(table[number.column], number.type, number.domain, where)  # type: ignore[arg-type]


def fixed_cost(binding: Binding) -> int:
    """What a row is charged beside its payload, and the place in the payload's list of slots."""
    return binding.plan.row_bytes() + 8


def costs(binding: Binding, stream: int, table: pa.Table) -> np.ndarray:
    """Bytes each row is charged when it is kept."""
    fixed = fixed_cost(binding)
    columns = binding.payload[stream]
    if not binding.keeps_payload or not columns:
        return np.full(table.num_rows, fixed, np.int64)
    payload = np.ceil(PAYLOAD_CHARGE * row_bytes(table, columns)).astype(np.int64)
    return np.minimum(payload + fixed, LARGEST_COST)


def gains(binding: Binding, stream: int, table: pa.Table) -> np.ndarray:
    """Each row's factor (or term) in the output value; or, with policy GIVEN, the number that came with it."""
    value = binding.query.value
    if binding.plan.hooks.GIVEN:
        column = binding.query.policy.column  # type: ignore[attr-defined]
    elif value is None:
        return np.zeros(0)
    else:
        column = dict(value.columns).get(binding.query.names[stream])
        if column is None:
            return np.full(table.num_rows, 0.0 if value.combine == "sum" else 1.0)
    where = f"{binding.query.names[stream]}.{column}"
    bits, valid = number_codes(table[column], pa.float64(), "float", where)
    gain = bits.view(np.float64).copy()
    gain[np.isnan(gain)] = 0.0
    if valid is not None:
        gain[~valid] = 0.0
    return gain


class Packed:
    """The rows of a push, ready to be packed piece by piece in the order in which they are taken."""

    def __init__(self, binding: Binding, rows: list[Rows], bases: list[int]) -> None:
        self.words = binding.plan.record_words()
        # rows that are late or without a time stay out; other ignored ones come along, because they too move the clock
        # and count in windows of rows
        chosen = [r.chosen() for r in rows]
        sizes = [len(r.time[c]) for r, c in zip(rows, chosen, strict=True)]
        self.stream = np.repeat(np.arange(len(rows)), sizes)
        self.row = np.concatenate([bases[s] + r.places[chosen[s]] for s, r in enumerate(rows)])
        time = np.concatenate([r.time[c] for r, c in zip(rows, chosen, strict=True)])
        live = np.concatenate([_live(binding, s, r)[chosen[s]] for s, r in enumerate(rows)])
        cost = np.concatenate([r.cost[c] for r, c in zip(rows, chosen, strict=True)])
        self.head = np.stack([time, self.stream, live, self.row, cost])
        self.gain = np.concatenate([r.gain[c] if len(r.gain) else r.gain for r, c in zip(rows, chosen, strict=True)])
        self.codes = _stacked([r.codes for r in rows], chosen, sizes, binding.plan.links)
        self.numbers = _stacked([r.numbers for r in rows], chosen, sizes, binding.plan.numbers.shape[1])
        self.tick = time if binding.query.order == "time" else _running_max(time, sizes)
        self.order = self._order(rows)
        self.slot = np.full(len(time), at.NONE, np.int64)

    def _order(self, rows: list[Rows]) -> np.ndarray:
        """In order of ticks; the deletions of a tick come before its other rows."""
        if all(r.deletes is None for r in rows):
            return np.argsort(self.tick, kind="stable")
        return np.lexsort((self.head[2] > at.DELETES, self.tick))

    def charges(self, where: Any = slice(None)) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Streams of rows, whether they are live, and what they cost."""
        return self.head[1][where], self.head[2][where], self.head[4][where]

    @cached_property
    def dearest(self) -> int:
        """What the dearest row costs."""
        return int(self.head[4].max(initial=0))

    def marks(self, where: np.ndarray, bases: list[int], found: list[np.ndarray], what: np.ndarray) -> None:
        """Note something of the rows at some positions, by stream, where they stand in their tables."""
        for stream, mine in enumerate(found):
            here = self.stream[where] == stream
            mine[self.row[where[here]] - bases[stream]] += what[here]

    def pieces(self, most: Callable[[np.ndarray], int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(positions, records) of successive pieces, cut between ticks, of no more of the rows that come next than told
        by `most`, if ticks allow it."""
        start, n = 0, len(self.order)
        while start < n:
            next_rows = self.order[start : start + PIECE_ROWS]
            end = start + min(len(next_rows), most(next_rows))
            if end < n:
                end = self._cut(start, end)
            where = self.order[start:end]
            records = np.empty(len(where) * self.words, np.int64)
            pack(records, where, self.tick, self.head, self.gain, self.codes, self.numbers)
            yield where, records
            start = end

    def _cut(self, start: int, end: int) -> int:
        """The end of a piece moved back to where the tick that it falls into begins, or on to where it ends."""
        tick = self.tick[self.order[end]]
        ticks = self.tick[self.order[start:end]]
        back = int(np.searchsorted(ticks, tick, side="left"))
        if back > 0:
            return start + back
        n = len(self.order)
        while end < n and self.tick[self.order[end]] == tick:
            ahead = self.tick[self.order[end : end + PIECE_ROWS]]
            end += int(np.searchsorted(ahead, tick, side="right"))
        return end


def _live(binding: Binding, stream: int, rows: Rows) -> np.ndarray:
    """The word that says whether rows are taken, or what they delete."""
    live = rows.keep.astype(np.int64)
    live = live if rows.refused is None else np.where(rows.refused, at.REFUSED, live)
    if rows.deletes is None:
        return live
    return np.where(rows.deletes, at.DELETES - (len(binding.numbers[stream]) - 1), live)


def _stacked(parts: list[list[np.ndarray]], chosen: list[Any], sizes: list[int], width: int) -> np.ndarray:
    """[column, row] over all streams; streams with fewer columns have zeros."""
    found = np.zeros((width, sum(sizes)), np.int64)
    start = 0
    for arrays, rows, size in zip(parts, chosen, sizes, strict=True):
        for k, array in enumerate(arrays):
            found[k, start : start + size] = array[rows]
        start += size
    return found


def _running_max(time: np.ndarray, sizes: list[int]) -> np.ndarray:
    """For arrival order: each stream keeps its own order, and streams are merged by the latest time seen."""
    parts = np.split(time, np.cumsum(sizes)[:-1])
    return np.concatenate([np.maximum.accumulate(p) if len(p) else p for p in parts])
