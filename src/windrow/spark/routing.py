"""Routing: which shards a row is sent to, so that every match is found in exactly one shard.

Shards are the cells of a grid. A dimension of the grid is a key (rows that have it go where its hash says, rows of
streams that do not have it go everywhere along it) or a stream (its rows are spread, all others go everywhere). A
match fixes one place in every dimension, so its rows meet in one cell. With one key common to all streams the grid is
a line and no row is sent twice; for other join graphs the shares that send the fewest copies are chosen.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np
import pyarrow as pa

from windrow.engine.bind import Binding
from windrow.engine.prepare import codes_in

HIGH_BITS = np.uint64(33)  # tables of keys use the low bits of a code, shards the high ones


@dataclass(frozen=True)
class Dimension:
    """One side of the grid: a directory of keys, or the rows of one stream; and how many places it has."""

    directory: int | None
    stream: int | None
    places: int


@dataclass(frozen=True)
class Routing:
    """The grid of a join."""

    dimensions: tuple[Dimension, ...]
    members: tuple[tuple[bool, ...], ...]  # [dimension][stream]: whether the stream's rows have a place of their own

    def copies(self, stream: int) -> int:
        """To how many shards each row of a stream is sent."""
        return prod(d.places for d, has in zip(self.dimensions, self.members, strict=True) if not has[stream])

    def cells(self, binding: Binding, stream: int, table: pa.Table, first_row: int) -> Iterator[np.ndarray]:
        """The shard of every row, once per copy."""
        fixed = np.zeros(table.num_rows, np.int64)
        free: list[tuple[int, int]] = []  # (places, stride) of dimensions along which the row goes everywhere
        stride = 1
        for dimension, has in zip(self.dimensions, self.members, strict=True):
            if has[stream]:
                fixed += stride * _places(dimension, binding, stream, table, first_row)
            else:
                free.append((dimension.places, stride))
            stride *= dimension.places
        for copy in range(prod(places for places, _ in free)):
            offset = 0
            for places, step in free:
                copy, place = divmod(copy, places)
                offset += step * place
            yield fixed + offset


def _places(dimension: Dimension, binding: Binding, stream: int, table: pa.Table, first_row: int) -> np.ndarray:
    """Each row's place along a dimension."""
    if dimension.directory is None:
        return (first_row + np.arange(table.num_rows)) % dimension.places
    codes, valid = codes_in(binding, stream, dimension.directory, table)
    places = ((codes.view(np.uint64) >> HIGH_BITS) % np.uint64(dimension.places)).astype(np.int64)
    if valid is not None:  # rows without a key match nothing: they are spread, to be counted
        places = np.where(valid, places, (first_row + np.arange(table.num_rows)) % dimension.places)
    return places


def routing_of(binding: Binding, shards: int) -> Routing:
    """The grid with at most `shards` cells that sends the fewest copies (and uses the most cells)."""
    streams = binding.plan.streams
    sides: list[tuple[int | None, int | None]] = [(d, None) for d in range(len(binding.directories))]
    members = [tuple(s in directory.columns for s in range(streams)) for directory in binding.directories]
    common = [k for k, has in enumerate(members) if all(has)]
    if common:
        return Routing((Dimension(common[0], None, shards),), (members[common[0]],))
    if not sides:
        sides = [(None, s) for s in range(streams)]
        members = [tuple(s == other for other in range(streams)) for s in range(streams)]
    best = min(_grids(shards, len(sides)), key=lambda grid: _load(grid, members, streams))
    kept = [k for k, places in enumerate(best) if places > 1] or [0]
    return Routing(tuple(Dimension(*sides[k], best[k]) for k in kept), tuple(members[k] for k in kept))


def _grids(cells: int, dimensions: int) -> Iterator[tuple[int, ...]]:
    """All ways to share out at most so many cells."""
    if dimensions == 0:
        yield ()
        return
    for places in range(1, cells + 1):
        for rest in _grids(cells // places, dimensions - 1):
            yield (places, *rest)


def _load(grid: tuple[int, ...], members: list[tuple[bool, ...]], streams: int) -> tuple[float, int]:
    """What the average cell receives when all streams are alike; ties go to fewer cells."""
    cells = prod(grid)
    sent = sum(prod(p for p, has in zip(grid, members, strict=True) if not has[s]) for s in range(streams))
    return sent / cells, cells


def labels(shards: int) -> list[int]:
    """Shard numbers to group by: Spark's own hash spreads them evenly over as many partitions as there are shards."""
    found: dict[int, int] = {}
    candidate = 0
    while len(found) < shards:
        found.setdefault(spark_hash(candidate) % shards, candidate)
        candidate += 1
    return [found[k] for k in range(shards)]


def spark_hash(number: int) -> int:
    """Spark's hash of a 32-bit integer (Murmur3 with seed 42), signed."""
    mask = 0xFFFFFFFF
    k = _rotl(number * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
    h = (_rotl(42 ^ k, 13) * 5 + 0xE6546B64) & mask
    h ^= 4
    h = (h ^ (h >> 16)) * 0x85EBCA6B & mask
    h = (h ^ (h >> 13)) * 0xC2B2AE35 & mask
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h


def _rotl(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & 0xFFFFFFFF
