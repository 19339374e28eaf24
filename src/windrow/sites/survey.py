"""Survey: what a stream is like, in few bytes, from its own site; and the figures that the surveys of all streams give.

rows    some whole rows, the last ones: for sizes of packed rows
keys    for each set of columns that other streams are equal to: times and hashes of the rows whose hash falls into
        a sample. Each stream halves its sample until it is small enough. Samples of two streams are cut to the
        smaller one of both: then they have the same keys, so the share of rows with partners is that of all rows
facts   how many rows came, in how many intervals, how many rows are in the window
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.sites.bound import NUMBER, TIME, Bound
from windrow.sites.figures import Figures, by_equality, meeting_of, window_rows
from windrow.sites.messages import Part
from windrow.sites.past import Past
from windrow.sites.values import codes_of
from windrow.state.columns import empty_table

HASH = "hash"
_MIX, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)
MOST_LEVEL = 31


def hashes(codes: np.ndarray) -> np.ndarray:
    """32 bits of each code: its lowest bits decide about samples."""
    mixed = codes.view(np.uint64) * _MIX
    return ((mixed ^ (mixed >> _SHIFT)) * _MIX >> _SHIFT).astype(np.uint32)


def in_level(found: np.ndarray, level: int) -> np.ndarray:
    """Which hashes fall into the sample of one in 2^level."""
    return found & np.uint32((1 << level) - 1) == 0


class Survey:
    """How the streams of a query are surveyed."""

    def __init__(self, bound: Bound, sample: int) -> None:
        self.bound, self.sample = bound, sample
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
        """The channels of a survey of a stream."""
        numbered = [pa.field(NUMBER, pa.int64())] if self.bound.lives[stream].rows is not None else []
        keys = pa.schema([pa.field(TIME, pa.int64()), *numbered, pa.field(HASH, pa.uint32())])
        rows = {f"rows {stream}": self.bound.rows_schema((stream,))}
        return rows | {f"keys {stream} {k}": keys for k in range(len(self.faces[stream]))}

    def of(self, stream: str, past: Past, since: int, watched: int) -> dict[str, Part]:
        """The survey of a stream: keys since an interval, rows that came in a later part of it."""
        rows = past.since(since)
        lately = past.since(watched)
        facts = {"rows": lately.num_rows, "busy": past.intervals(watched)}
        facts["window"] = round(1000 * window_rows(self.bound, stream, rows)) if rows.num_rows else 0
        last = lately.slice(max(0, lately.num_rows - self.sample))
        parts = {f"rows {stream}": Part(last.combine_chunks(), facts)}
        for k, (columns, types) in enumerate(self.faces[stream]):
            parts[f"keys {stream} {k}"] = self._keys(stream, rows, columns, types)
        return parts

    def _keys(self, stream: str, rows: pa.Table, columns: tuple[str, ...], types: tuple[Any, ...]) -> Part:
        if not rows.num_rows:
            return Part(empty_table(self.schemas(stream)[f"keys {stream} 0"]), {"level": 0})
        found, level = hashes(codes_of(rows, columns, types)), 0
        while in_level(found, level).sum() > self.sample and level < MOST_LEVEL:
            level += 1
        where = pa.array(np.flatnonzero(in_level(found, level)))
        names = [name for name in (TIME, NUMBER) if name in rows.column_names]
        table = rows.select(names).append_column(HASH, pa.array(found)).take(where)
        return Part(table.combine_chunks(), {"level": level})

    def figures(self, parts: Mapping[str, Mapping[str, Part]], every: int, unit_seconds: float) -> Figures:
        """What the surveys of all streams say; streams were watched for `every` intervals."""
        bound, seconds = self.bound, self.bound.tau * unit_seconds
        facts = {name: parts[name][f"rows {name}"].facts for name in bound.query.names}
        samples = {name: parts[name][f"rows {name}"].table for name in bound.query.names}
        meetings = {(a, b): self._meeting(a, b, parts) for b, a in self.face}
        widths = {c: t[c].nbytes / max(t.num_rows, 1) for t in samples.values() for c in t.column_names if c[0] != "@"}
        return Figures(
            seconds,
            {name: told["rows"] / (every * seconds) for name, told in facts.items()},
            {name: told["window"] / 1000 for name, told in facts.items()},
            widths,
            meetings,
            {},
            samples,
            {name: min(1.0, told["busy"] / every) for name, told in facts.items()},
        )

    def _meeting(self, a: str, b: str, parts: Mapping[str, Mapping[str, Part]]) -> Any:
        """How rows of a meet the window of b."""
        arriving = parts[a][f"keys {a} {self.face[a, b]}"]
        window = parts[b][f"keys {b} {self.face[b, a]}"]
        level = max(arriving.facts["level"], window.facts["level"])
        theirs, ours = (part.table.filter(pa.array(in_level(_hash(part), level))) for part in (arriving, window))
        codes = [table[HASH].to_numpy().astype(np.uint64) for table in (theirs, ours)]
        return meeting_of(self.bound, b, theirs[TIME].to_numpy(), codes[0], ours, codes[1])


def _hash(part: Part) -> np.ndarray:
    return part.table[HASH].to_numpy()
