"""Routing: which shards a row is sent to, so that every match is found in exactly one shard.

Shards are the cells of a grid. A dimension of the grid is a key (rows that have it go where its hash says, rows of
streams that do not have it go everywhere along it) or a stream (its rows are spread, all others go everywhere). A
match fixes one place in every dimension, so its rows meet in one cell. With one key common to all streams the grid is
a line and no row is sent twice; for other join graphs the shares that send the fewest copies are chosen.

A row with a key goes to the same shard embedded (sharded.py) and on Spark. Who is spread goes by the number of the row:
in its stream here, in its partition there.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from windrow.engine.bind import Binding

Codes = Callable[[int], tuple[np.ndarray, np.ndarray | None]]
"""A stream's codes in a directory, and which of its rows have a key (None: all)."""

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

    @property
    def size(self) -> int:
        """How many shards get rows."""
        return prod(dimension.places for dimension in self.dimensions)

    def split(self, stream: int, codes: Codes, number: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Rows of a stream, with their numbers in it, in the order of their shards; and where each shard's begin.

        Once for each copy of the rows. A shard's rows are all of one copy, and stay in their order.
        """
        for cells in self._cells(stream, codes, number):
            order = np.argsort(cells.astype(np.uint16), kind="stable")  # of so few bits numpy sorts by radix
            yield order, np.append(0, np.cumsum(np.bincount(cells, minlength=self.size)))

    def _cells(self, stream: int, codes: Codes, number: np.ndarray) -> Iterator[np.ndarray]:
        """The shard of every row, once per copy."""
        fixed = np.zeros(len(number), np.int64)
        free: list[tuple[int, int]] = []  # (places, stride) of dimensions along which the row goes everywhere
        stride = 1
        for dimension, has in zip(self.dimensions, self.members, strict=True):
            if has[stream]:
                fixed += stride * _places(dimension, codes, number)
            else:
                free.append((dimension.places, stride))
            stride *= dimension.places
        for copy in range(prod(places for places, _ in free)):
            offset = 0
            for places, step in free:
                copy, place = divmod(copy, places)
                offset += step * place
            yield fixed + offset


def _places(dimension: Dimension, codes: Codes, number: np.ndarray) -> np.ndarray:
    """Each row's place along a dimension."""
    if dimension.directory is None:
        return number % dimension.places
    code, valid = codes(dimension.directory)
    places = ((code.view(np.uint64) >> HIGH_BITS) % np.uint64(dimension.places)).astype(np.int64)
    if valid is not None:  # rows without a key match nothing: they are spread, to be counted
        places = np.where(valid, places, number % dimension.places)
    return places


def routing_of(binding: Binding, shards: int) -> Routing:
    """The grid with at most `shards` cells that sends the fewest copies (and uses the most cells)."""
    streams = binding.plan.streams
    sides: list[tuple[int | None, int | None]] = [
        (d, None) for d, found in enumerate(binding.directories) if found.probed
    ]
    members = [tuple(s in found.columns for s in range(streams)) for found in binding.directories if found.probed]
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
