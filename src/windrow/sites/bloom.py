"""Filters instead of partial rows: a Bloom filter of keys, or keys cut down to 32 bits.

They pass more than they should, now and then, and never less: that costs bytes, and no answer.

    Sketch     at the source: a Bloom filter of the keys of arriving rows                       BF-S1, BF-D2
    Offer      at the window: rows whose key the filter passes and that were never sent         BF-S1
    Echo       at the window: a Bloom filter of its own keys that the filter passes             BF-D2
    Keep       at the source: arriving rows whose key that filter passes                        BF-D2
    TellShort, ChooseShort   SM-D1 with values of 32 bits                                       BF-D1

The 64-bit codes of keys are hashes already; two halves of one give all positions in a filter.
"""

import numpy as np
import pyarrow as pa

from windrow.sites.edges import Edge
from windrow.sites.messages import Part
from windrow.sites.mixed import Choose, Tell, key_schema
from windrow.sites.semijoins import copied
from windrow.sites.steps import Step, rows_in
from windrow.sites.values import PLACES, Codes, codes_of
from windrow.state.columns import empty_table

FILTER = pa.schema([pa.field("bits", pa.binary())])
BITS, HASHES = 10, 7  # for each key: about 1 in 120 others passes
SHORT = np.uint64(32)
_HALF = np.uint64(0xFFFFFFFF)


def bloom(codes: Codes) -> Part:
    """A filter that passes these keys; no keys are no filter."""
    codes = np.unique(codes)
    if not len(codes):
        return Part(empty_table(FILTER))
    size = max(64, -(-len(codes) * BITS // 8) * 8)
    bits = np.zeros(size, np.bool_)
    for places in _places(codes, size):
        bits[places] = True
    return Part(pa.table({"bits": pa.array([np.packbits(bits).tobytes()], pa.binary())}, schema=FILTER), {"size": size})


def passes(part: Part, codes: Codes) -> np.ndarray:
    """Which keys a filter passes."""
    found = np.zeros(len(codes), np.bool_)
    if part.table.num_rows and len(codes):
        size = part.facts["size"]
        packed = np.frombuffer(part.table["bits"][0].as_buffer(), np.uint8)
        bits = np.unpackbits(packed, count=size).view(np.bool_)
        found[:] = True
        for places in _places(codes, size):
            found &= bits[places]
    return found


def _places(codes: Codes, size: int) -> list[np.ndarray]:
    low, high = codes & _HALF, (codes >> SHORT) | np.uint64(1)
    return [((low + np.uint64(k) * high) % np.uint64(size)).astype(np.int64) for k in range(HASHES)]


class Sketch(Step):
    """Reads arriving rows: writes a filter of their keys."""

    @staticmethod
    def schemas(edge: Edge) -> list[pa.Schema]:
        return [FILTER]

    def run(self, interval: int, parts: list[Part | None]) -> list[Part]:
        """Hash."""
        arriving, keys = rows_in(parts[0]), self.edge.bound.keys(self.edge.stream, self.edge.done)
        assert arriving is not None
        return [bloom(codes_of(arriving, keys.theirs, keys.types))]


class Offer(Tell):
    """Reads a filter, the window's batch, its clock: writes rows that it passes and that were never sent.

    A mark is the number of the row's entry, and its lowest bit says whether the row was sent.
    """

    @staticmethod
    def kept(edge: Edge) -> pa.Schema:
        return copied(edge)

    @staticmethod
    def schemas(edge: Edge) -> list[pa.Schema]:
        return [copied(edge)]

    def marks(self, number: np.ndarray) -> np.ndarray:
        return number << 1

    def expired(self, marks: np.ndarray) -> np.ndarray:
        self.gone = int((marks & 1).sum())
        return marks >> 1

    def run(self, interval: int, parts: list[Part | None]) -> list[Part]:
        """Count the batch in, send what is asked for."""
        batch, clock = rows_in(parts[1]), rows_in(parts[2])
        assert parts[0] is not None and batch is not None
        self.gone = 0
        self._update(interval, self.store.admit(batch))
        wanted = self.values.number[passes(parts[0], self.values.codes)]
        mark = self.store.mark
        place = np.flatnonzero(np.isin(mark >> 1, wanted) & (mark & 1 == 0) & ~self.store.out)
        rows = self.store.take(place)
        mark[place] |= 1
        self.moments.pass_on(clock)
        self.store.forget(self.moments.low(interval))
        return [Part(rows, {"expired": self.gone})]


class Echo(Tell):
    """Reads a filter, the window's batch, its clock: writes a filter of the keys in the window that it passes."""

    @staticmethod
    def schemas(edge: Edge) -> list[pa.Schema]:
        return [FILTER]

    def run(self, interval: int, parts: list[Part | None]) -> list[Part]:
        """Count the batch in, pass its keys."""
        batch, clock = rows_in(parts[1]), rows_in(parts[2])
        assert parts[0] is not None and batch is not None
        self._update(interval, self.store.admit(batch))
        self.count_told(batch)
        self.moments.pass_on(clock)
        self.store.forget(self.moments.low(interval))
        return [bloom(self.values.codes[passes(parts[0], self.values.codes)])]


class Keep(Step):
    """Reads arriving rows and a filter: writes the rows whose keys it passes."""

    @staticmethod
    def schemas(edge: Edge) -> list[pa.Schema]:
        return [edge.arriving]

    def run(self, interval: int, parts: list[Part | None]) -> list[Part]:
        """Pass."""
        arriving, keys = rows_in(parts[0]), self.edge.bound.keys(self.edge.stream, self.edge.done)
        assert arriving is not None and parts[1] is not None
        if not arriving.num_rows:
            return [Part(arriving)]
        return [Part(arriving.filter(pa.array(passes(parts[1], codes_of(arriving, keys.theirs, keys.types)))))]


VALUE = pa.schema([pa.field("value", pa.uint32())])


class TellShort(Tell):
    """As Tell, with values of 32 bits."""

    @staticmethod
    def schemas(edge: Edge) -> list[pa.Schema]:
        return [VALUE, PLACES]

    def codes(self, batch: pa.Table) -> Codes:
        return super().codes(batch) >> SHORT

    def new_values(self, batch: pa.Table, first: np.ndarray) -> pa.Table:
        codes = self.codes(batch.select(key_schema(self.edge).names).take(pa.array(first)))
        return pa.table({"value": pa.array(codes.astype(np.uint32))}, schema=VALUE)


class ChooseShort(Choose):
    """As Choose, with values of 32 bits."""

    def codes_told(self, told: pa.Table) -> Codes:
        return told["value"].to_numpy().astype(np.uint64)

    def codes_asked(self, arriving: pa.Table) -> Codes:
        return super().codes_asked(arriving) >> SHORT
