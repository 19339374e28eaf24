"""Survey: what a stream is like, in few bytes, from its own site; and the figures that the surveys of all streams give.

A brief survey is three numbers: how many rows came, in how many intervals, and how many are in the window. A full one
also has

sizes   what packed rows take (sizes.py): no rows travel
keys    for each set of columns that other streams are equal to: times and hashes of the rows whose hash falls into
        a sample. Each stream halves its sample until it is small enough. Samples of two streams are cut to the
        smaller one of both: then they have the same keys, so the share of rows with partners is that of all rows.
        Times travel as distances, hashes without the bits that the sample decides

What the last full survey said holds until the next one, for as many rows as brief ones say that there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.errors import InputError
from windrow.sites.bound import NUMBER, TIME, Bound
from windrow.sites.figures import Figures, Meeting, by_equality, meeting_of, window_rows
from windrow.sites.messages import Part
from windrow.sites.past import Past
from windrow.sites.sizes import SIZES, Sizes, lines_of
from windrow.sites.values import codes_of
from windrow.state.columns import empty_table

HASH = "hash"
_MIX, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)
MOST_LEVEL = 31
SURE = 3.0  # standard deviations of a count that are no accident
Parts = Mapping[str, Part]


def hashes(codes: np.ndarray) -> np.ndarray:
    """32 bits of each code: its lowest bits decide about samples."""
    mixed = codes.view(np.uint64) * _MIX
    return ((mixed ^ (mixed >> _SHIFT)) * _MIX >> _SHIFT).astype(np.uint32)


def in_level(found: np.ndarray, level: int) -> np.ndarray:
    """Which hashes fall into the sample of one in 2^level."""
    return found & np.uint32((1 << level) - 1) == 0


class Survey:
    """How the streams of a query are surveyed. `every`: for how many intervals they are watched."""

    def __init__(self, bound: Bound, every: int) -> None:
        self.bound, self.every = bound, every
        self.faces: dict[str, list[tuple[tuple[str, ...], tuple[Any, ...]]]] = {n: [] for n in bound.query.names}
        self.face: dict[tuple[str, str], int] = {}  # which of its faces a stream shows to another
        for mine in bound.query.names:
            for other in bound.query.names:
                if mine != other and by_equality(bound, other, mine):
                    keys = bound.keys(mine, (other,))
                    look = (keys.mine, keys.types)
                    if look not in self.faces[mine]:
                        self.faces[mine].append(look)
                    self.face[mine, other] = self.faces[mine].index(look)

    def schemas(self, stream: str) -> dict[str, pa.Schema]:
        """The channels of a full survey of a stream; a brief one has the first only."""
        numbered = [pa.field(NUMBER, pa.int64())] if self.bound.lives[stream].rows is not None else []
        keys = pa.schema([pa.field(TIME, pa.int64()), *numbered, pa.field(HASH, pa.uint32())])
        return {f"facts {stream}": SIZES} | {f"keys {stream} {k}": keys for k in range(len(self.faces[stream]))}

    # -- at home ---------------------------------------------------------------------------------------------------

    def of(self, stream: str, past: Past, since: int, until: int, keys: int) -> dict[str, Part]:
        """The survey of a stream before an interval: rows that came lately, and keys, if so many are wanted, since an
        earlier one."""
        lately, watched = past.since(until - self.every), past.intervals(until - self.every)
        facts = {"rows": lately.num_rows, "busy": watched}
        rows = past.since(since)
        facts["window"] = round(1000 * window_rows(self.bound, stream, rows)) if rows.num_rows else 0
        if not keys:
            return {f"facts {stream}": Part(empty_table(SIZES), facts)}
        sizes = Sizes.of(rows, lately.num_rows / max(watched, 1)).table() if rows.num_rows else empty_table(SIZES)
        parts = {f"facts {stream}": Part(sizes, facts)}
        for k, (columns, types) in enumerate(self.faces[stream]):
            parts[f"keys {stream} {k}"] = self._keys(stream, rows, columns, types, keys)
        return parts

    def _keys(self, stream: str, rows: pa.Table, columns: tuple[str, ...], types: tuple[Any, ...], most: int) -> Part:
        schema = self.schemas(stream)[f"keys {stream} 0"]
        if not rows.num_rows:
            return Part(empty_table(schema), {"level": 0})
        found, level = hashes(codes_of(rows, columns, types)), 0
        while in_level(found, level).sum() > most and level < MOST_LEVEL:
            level += 1
        where = np.flatnonzero(in_level(found, level))
        near = [pa.array(np.diff(rows[name].to_numpy()[where], prepend=0)) for name in schema.names[:-1]]
        return Part(pa.Table.from_arrays([*near, pa.array(found[where] >> level)], schema=schema), {"level": level})

    # -- at the seat -----------------------------------------------------------------------------------------------

    def verify(self, stream: str, parts: Parts) -> None:
        """Refuse what is no survey of a stream."""
        schemas = self.schemas(stream)
        first = parts.get(f"facts {stream}")
        if first is None or set(parts) not in (set(schemas), {f"facts {stream}"}):
            raise InputError(f"the survey of {stream!r} lacks parts, or has strange ones")
        if set(first.facts) != {"rows", "busy", "window"} or min(first.facts.values()) < 0:
            raise InputError(f"the survey of {stream!r} does not say how many rows there were")
        numbers = first.table["n"].to_numpy()
        if len(numbers) not in (0, lines_of(self.bound.rows_schema((stream,)))) or (numbers < 0).any():
            raise InputError(f"the survey of {stream!r} has sizes of other columns")
        for channel, part in parts.items():
            if channel in schemas and schemas[channel] is not SIZES and not 0 <= part.facts.get("level", -1) < 32:
                raise InputError(f"the survey of {stream!r} does not say how keys were sampled")

    def is_full(self, parts: Mapping[str, Parts]) -> bool:
        """Whether surveys of all streams have keys."""
        return all(set(parts[name]) == set(self.schemas(name)) for name in self.bound.query.names)

    def base(self, parts: Mapping[str, Parts]) -> dict[str, Any]:
        """What full surveys say, as plain values."""
        told = {name: parts[name][f"facts {name}"] for name in self.bound.query.names}
        return {
            "facts": {name: dict(part.facts) for name, part in told.items()},
            "sizes": {name: part.table["n"].to_pylist() for name, part in told.items()},
            "meetings": [[a, b, list(astuple(self._meeting(a, b, parts)))] for b, a in self.face],
        }

    def facts(self, parts: Mapping[str, Parts]) -> dict[str, dict[str, int]]:
        """The numbers of rows that surveys say."""
        return {name: dict(parts[name][f"facts {name}"].facts) for name in self.bound.query.names}

    def drifted(self, base: Mapping[str, Any], facts: Mapping[str, Mapping[str, int]], ratio: float) -> bool:
        """Whether some stream has so many times, or so many times less, rows than it had, and not by chance."""
        for name, told in facts.items():
            old, new = base["facts"][name]["rows"], told["rows"]
            if max(old, new) > ratio * min(old, new) and abs(old - new) > SURE * (old + new) ** 0.5:
                return True
        return False

    def figures(self, base: Mapping[str, Any], facts: Mapping[str, Mapping[str, int]], unit_seconds: float) -> Figures:
        """What was said by the last full surveys, for as many rows as there are now."""
        seconds, before = self.bound.tau * unit_seconds, base["facts"]
        more = {name: _ratio(told["rows"], before[name]["rows"]) for name, told in facts.items()}
        held = {name: _ratio(told["window"], before[name]["window"]) for name, told in facts.items()}
        wires = {name: self.bound.rows_schema((name,)) for name in facts}
        sizes = {n: Sizes.read(np.array(told), wires[n]) for n, told in base["sizes"].items() if told}
        widths = {c: s.size([c], s.counts[-1], frame=False) / s.counts[-1] for s in sizes.values() for c in s.columns}
        return Figures(
            seconds,
            {name: told["rows"] / (self.every * seconds) for name, told in facts.items()},
            {name: told["window"] / 1000 for name, told in facts.items()},
            widths,
            {(a, b): Meeting(*told).scaled(more[a], held[b]) for a, b, told in base["meetings"]},
            busy={name: min(1.0, told["busy"] / self.every) for name, told in facts.items()},
            sizes=sizes,
        )

    def _meeting(self, a: str, b: str, parts: Mapping[str, Parts]) -> Meeting:
        """How rows of a meet the window of b."""
        arriving, window = parts[a][f"keys {a} {self.face[a, b]}"], parts[b][f"keys {b} {self.face[b, a]}"]
        level = max(arriving.facts["level"], window.facts["level"])
        theirs, ours = (_sampled(part, level) for part in (arriving, window))
        codes = [table[HASH].to_numpy().astype(np.uint64) for table in (theirs, ours)]
        return meeting_of(self.bound, b, theirs[TIME].to_numpy(), codes[0], ours, codes[1])


def _ratio(now: int, before: int) -> float:
    return now / before if before else 1.0


def _sampled(part: Part, level: int) -> pa.Table:
    """The times, numbers and hashes of a sample, cut to a level."""
    table, names = part.table, part.table.column_names[:-1]
    found = table[HASH].to_numpy() << np.uint32(part.facts["level"])
    columns = {name: np.cumsum(table[name].to_numpy()) for name in names}
    return pa.table(columns | {HASH: found}).filter(pa.array(in_level(found, level)))
