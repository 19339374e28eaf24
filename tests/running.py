"""Running a case through an engine, and comparing multisets with counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import settings
from tests.reference import plain
from tests.streams import Case

import windrow as wr
from windrow.state.snapshot.form import table_bytes

COUNTERS = ("arrived", "late", "ignored", "expired", "released", "shed", "resident_rows", "resident_bytes")


FEWEST = 10  # examples, below which a search is none


def examples(count: int) -> settings:
    """So many examples in the profile ci (which has 100), and in proportion in the others, but never too few."""
    return settings(max_examples=max(FEWEST, count * settings.default.max_examples // 100))  # type: ignore[union-attr]


def start(case: Case, **options: Any) -> Any:
    """A fresh engine for a case; a policy that looks ahead is shown the whole streams."""
    if isinstance(getattr(case.query.policy, "statistics", None), wr.statistics.Oracle):
        whole = case.at_once().batches[0]
        options["oracle"] = {n: pa.Table.from_pylist(rows, schema=case.schemas[n]) for n, rows in whole.items()}
    return wr.Engine(case.query, schemas=case.schemas, **options)


def run(case: Case, **options: Any) -> tuple[Any, list[pa.Table]]:
    """The engine after all batches of a case, and the output of each push."""
    engine = start(case, **options)
    return engine, [engine.push(batch) for batch in case.tables]


def multiset(tables: pa.Table | Sequence[pa.Table]) -> Counter[tuple[Any, ...]]:
    """The rows of some tables, with counts."""
    rows: Counter[tuple[Any, ...]] = Counter()
    for table in [tables] if isinstance(tables, pa.Table) else tables:
        columns = [[plain(value) for value in column.to_pylist()] for column in table.columns]
        rows.update(zip(*columns, strict=True))
    return rows


def assert_same(found: Counter[Any], expected: Counter[Any], note: object = "") -> None:
    """Two multisets are equal, or the failure prints how they differ."""
    missing, extra = expected - found, found - expected
    assert not missing and not extra, f"missing: {dict(missing)}; not in the join: {dict(extra)}; {note}"


def assert_part(found: Counter[Any], exact: Counter[Any]) -> None:
    """A multiset is part of the exact join's."""
    assert found <= exact, f"not in the join: {dict(found - exact)}"


def assert_accounted(engine: Any) -> None:
    """Every row that arrived is somewhere, once."""
    metrics = engine.metrics
    told = metrics.to_dict()
    for name, stream in metrics.streams.items():
        parts = stream.late + stream.ignored + stream.resident_rows
        parts += stream.expired + stream.released + stream.shed
        assert stream.arrived == parts, (name, stream)
        assert all(getattr(stream, counter) >= 0 for counter in COUNTERS), (name, stream)
    for counter in COUNTERS:
        total = sum(getattr(stream, counter) for stream in metrics.streams.values())
        assert getattr(metrics, counter) == metrics.total(counter) == told[counter] == total
    if metrics.arrived:
        engines = getattr(engine, "engines", [engine])
        assert metrics.resident_bytes == sum(one._shard.charged_bytes for one in engines)


def counters(engine: Any) -> dict[str, dict[str, int]]:
    """All counters of all streams, and the matches."""
    metrics = engine.metrics
    found = {name: {c: getattr(s, c) for c in COUNTERS} for name, s in metrics.streams.items()}
    return {**found, "all": {"matched": metrics.matched}}


def same_bytes(one: pa.Table, other: pa.Table) -> bool:
    """Whether two tables are equal byte for byte (for Arrow's own equality, NaN differs from NaN)."""
    return bool(table_bytes(one.combine_chunks()).equals(table_bytes(other.combine_chunks())))
