"""Everything that is known of an approximate result against the exact one, in one record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from windrow.errors import SpecError, alternatives
from windrow.quality.distance import EarthMovers, MatchAndCompare, earth_movers, match_and_compare
from windrow.quality.measures import MEASURES as SET_MEASURES
from windrow.quality.measures import ArchiveMetric, Comparison, archive_metric, compare

DISTANCES = ("earth_movers", "match_and_compare")
"""Measures that need coordinates."""

MEASURES = (*SET_MEASURES, *DISTANCES, "archive")


@dataclass(frozen=True)
class Compared:
    """An approximate result against the exact one: the set measures, and those of the others that were asked for."""

    counts: Comparison
    earth_movers: EarthMovers | None = None
    match_and_compare: MatchAndCompare | None = None
    archive: ArchiveMetric | None = None

    def __getattr__(self, name: str) -> Any:
        if name in SET_MEASURES:  # `compared.jaccard` is short for `compared.counts.jaccard`
            return getattr(self.counts, name)
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")

    def to_dict(self) -> dict[str, Any]:
        """Every figure by name as plain data; those of one measure in a dictionary of their own."""
        found: dict[str, Any] = dict(self.counts.as_dict())
        if (moved := self.earth_movers) is not None:
            found["earth_movers"] = {"distance": moved.distance, "work": moved.work, "moved": moved.moved}
        if (cover := self.match_and_compare) is not None:
            found["match_and_compare"] = {"distance": cover.distance, "work": cover.work, "shared": cover.shared}
        if (left := self.archive) is not None:
            found["archive"] = {"work": left.work, "archived": left.archived, "missing": left.missing}
        return found


def measured(
    approximate: pa.Table,
    exact: pa.Table,
    columns: Sequence[str] | None,
    coordinates: Sequence[str],
    measures: Sequence[str],
    penalty: float,
    archived: int | None,
) -> Compared:
    """Take the measures: counts always, distances by `coordinates`, the archive metric if `archived` is known."""
    wanted = [known_measure(name) for name in measures]
    if not coordinates and (lacking := [name for name in wanted if name in DISTANCES]):
        raise SpecError(f"{lacking[0]} needs coordinates: name the numeric columns (or times) that say where a row is")
    if archived is None and "archive" in wanted:
        raise SpecError("the archive metric needs archived: the number of rows that were shed into the archive")
    counts = compare(approximate, exact, columns)
    return Compared(
        counts,
        earth_movers(approximate, exact, coordinates) if "earth_movers" in wanted else None,
        match_and_compare(approximate, exact, coordinates, penalty) if "match_and_compare" in wanted else None,
        archive_metric(archived, counts) if archived is not None else None,
    )


def known_measure(name: str) -> str:
    """The measure that a name stands for, with hyphens or underscores, or an error that lists them."""
    plain = name.strip().lower().replace("-", "_")
    if plain in MEASURES:
        return plain
    raise SpecError(f"there is no measure {name!r}{alternatives(plain, MEASURES, 'measures')}")
