"""Departures: the rows that were lost, with why and when, so that what they would have matched can be found later.

    shed        left memory, or was never admitted, because memory was full
    sampled     was left out by the sampler in front of memory: probed, never stored, shed in all else
    late        came behind the watermark and was not processed
    disordered  was processed, but at a time that the clock had already passed. Nothing is lost with it; whoever
                asks later which shed rows it met needs to know

A shed row with clock c met every row of another stream with a time up to c, except disordered ones that came after
it had left. Sequence numbers tell these apart: a row with number n came after a departure with number d if n >= d.
"""

import copy
from typing import Literal

import numpy as np
import pyarrow as pa

from windrow.engine.prepare import Packed, Rows
from windrow.errors import DuplicateColumn
from windrow.kernels import layout as at
from windrow.state.columns import empty_table, gathered

Why = Literal["shed", "sampled", "late", "disordered"]
WHY, CLOCK, SEQ = "windrow_why", "windrow_clock", "windrow_seq"
SHARD = "windrow_shard"  # whose clock and sequence number these are, where there are several
FIELDS = (pa.field(WHY, pa.string()), pa.field(CLOCK, pa.int64()), pa.field(SEQ, pa.int64()))


class Departures:
    """The rows of each stream that were lost since they were last asked for."""

    def __init__(self, schemas: list[pa.Schema]) -> None:
        if taken := [field.name for schema in schemas for field in FIELDS if field.name in schema.names]:
            raise DuplicateColumn(f"a stream has a column {taken[0]!r}, which departed rows get: rename it")
        self.schemas = [pa.schema([*schema, *FIELDS]) for schema in schemas]
        self._pieces: list[list[pa.Table]] = [[] for _ in schemas]

    @property
    def pending(self) -> bool:
        """Whether there are any."""
        return any(self._pieces)

    def copied(self) -> "Departures":
        """The same rows once more; what is added to one is not in the other."""
        other = copy.copy(self)
        other._pieces = [list(pieces) for pieces in self._pieces]
        return other

    def take(self) -> list[pa.Table]:
        """One table per stream: its columns, then why, clock and sequence number."""
        both = zip(self.schemas, self._pieces, strict=True)
        found = [pa.concat_tables([empty_table(schema), *pieces]) for schema, pieces in both]
        self._pieces = [[] for _ in self.schemas]
        return found

    def add_shed(self, gone: np.ndarray, payloads: list[pa.Table]) -> None:
        """Rows that a shard has shed, [row, word], and the payloads that their rows point into."""
        reasons: tuple[tuple[Why, int], ...] = (("shed", at.SHED), ("sampled", at.SAMPLED))
        for stream, payload in enumerate(payloads):
            for why, reason in reasons:
                mine = gone[(gone[:, at.G_STREAM] == stream) & (gone[:, at.G_WHY] == reason)]
                self._add(stream, payload, mine[:, at.G_ROW], why, mine[:, at.G_CLOCK], mine[:, at.G_SEQ])

    def add_late(self, rows: list[Rows], clock: int, seq: int) -> None:
        """Rows of a push that came too late."""
        for stream, batch in enumerate(rows):
            late = batch.places[batch.is_late]
            self._add(stream, batch.table, late, "late", np.full(len(late), clock), np.full(len(late), seq))

    def add_disordered(
        self, rows: list[Rows], packed: Packed, bases: list[int], clock: int, seq: int, group: int
    ) -> None:
        """Rows of a push that was taken when the clock and the sequence number stood at these, in groups of so many."""
        where = packed.order
        live = packed.head[2][where] != 0
        number = seq + np.cumsum(live) - 1
        tick = packed.tick[where]
        behind = live & ((tick <= clock) | _cut_off(tick, group))
        for stream, batch in enumerate(rows):
            mine = behind & (packed.stream[where] == stream)
            chosen = packed.row[where[mine]] - bases[stream]
            self._add(stream, batch.table, chosen, "disordered", tick[mine], number[mine])

    def _add(
        self, stream: int, table: pa.Table, rows: np.ndarray, why: Why, clock: np.ndarray, seq: np.ndarray
    ) -> None:
        if len(rows) == 0:
            return
        schema = self.schemas[stream]
        columns = [gathered(table[name], rows) for name in schema.names[: -len(FIELDS)]]
        facts = [pa.repeat(why, len(rows)), pa.array(clock, pa.int64()), pa.array(seq, pa.int64())]
        self._pieces[stream].append(pa.Table.from_arrays([*columns, *facts], schema=schema))


def _cut_off(tick: np.ndarray, group: int) -> np.ndarray:
    """Rows of an instant with so many rows that they are taken in several groups: all but the first group."""
    starts = np.flatnonzero(np.diff(tick, prepend=tick[:1] - 1))
    sizes = np.diff(starts, append=len(tick))
    return np.arange(len(tick)) - np.repeat(starts, sizes) >= group
