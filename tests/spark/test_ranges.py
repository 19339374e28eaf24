"""Repair of a range: the missing matches whose later row lies in it, each in one range, after any upkeep.

Can catch: a match at the edge of two ranges that is in both or in none; a partner outside of a range that is cut off
though its match is inside; files that merging has left over and that are read twice; a forgotten range that is short.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.running import assert_same
from tests.spark.driving import WINDOW, Driven, archived, batches, exact, missed, query

import windrow as wr
from windrow.errors import InputError, SpecError, UnknownColumn
from windrow.spark import upkeep
from windrow.spark.contents import contents
from windrow.spark.moments import moment_of, written_out
from windrow.spark.repair import _moment, _Repair

EDGE = 40


def test_ranges_give_each_missing_match_once(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(upkeep, "FAN", 3)
    rows = batches(seed, 24)
    driven = Driven(tmp_path).start(query())
    for batch in rows:
        driven.push(batch)
    tables = {name: pa.concat_tables([batch[name] for batch in rows]) for name in WINDOW}
    times = {row["id"]: row["t"] for table in tables.values() for row in table.to_pylist()}
    lost = missed(archived(tmp_path), rows)
    assert driven.output + lost == exact(rows)
    early = Counter({(a, b): n for (a, b), n in lost.items() if max(times[a], times[b]) < EDGE})
    across = [(a, b) for a, b in lost - early if min(times[a], times[b]) < EDGE]
    assert early and across, "or this test shows nothing"
    sides = {name: spark.createDataFrame(table.to_pandas()) for name, table in tables.items()}

    def repaired(**bounds: Any) -> Counter[Any]:
        found = wr.repair(f"file://{tmp_path}", *sides.values(), **bounds).toArrow()
        return Counter((row["a"], row["b"]) for row in found.to_pylist())

    with pytest.raises(UnknownColumn, match="'t'"):
        wr.repair(tmp_path, sides["left"].drop("t"), sides["right"], since=EDGE)
    assert_same(repaired(until=EDGE), early, f"seed {seed}")
    wr.spark.compact(tmp_path)  # leaves files over
    assert wr.spark.forget(tmp_path, before=EDGE).removed > 0
    assert_same(repaired(since=EDGE), lost - early, f"seed {seed}")
    for bounds in ({}, {"since": EDGE - 1}, {"until": EDGE + 5}):
        with pytest.raises(SpecError, match=f"has forgotten what was lost before {EDGE}: give since={EDGE}"):
            repaired(**bounds)
    with pytest.raises(SpecError, match="since=50 must lie before until=50"):
        repaired(since=50, until=50)
    (tmp_path / contents(str(tmp_path), WINDOW).kept("left")[1].name).unlink()
    with pytest.raises(InputError, match="is not whole"):
        repaired(since=EDGE)


MOMENTS = [
    ("timestamp", "timestamp'2024-02-29 12:00:00.123456+00:00'", {"kind": "timestamp", "unit": "us", "tz": "UTC"}),
    ("timestamp_ntz", "timestamp_ntz'2024-02-29 12:00:00.123456'", {"kind": "timestamp", "unit": "us", "tz": None}),
    ("timestamp_ntz", "timestamp_ntz'1923-02-01 23:59:59.999999'", {"kind": "timestamp", "unit": "us", "tz": None}),
    ("date", "date'2024-02-29'", {"kind": "date", "unit": "us", "tz": None}),
    ("bigint", "-7L", {"kind": "integer", "unit": "steps", "tz": None}),
]


def test_moments_are_the_same_for_spark_and_for_the_engine(spark: Any) -> None:
    class Side(_Repair):
        def __init__(self, kind: str) -> None:
            self.sides = {"x": spark.sql(f"select cast(null as {kind}) as at")}

        def _time(self, name: str) -> str:
            return "at"

    ticks = [Side(kind)._ticks("x").replace("windrow_time_x", value) for kind, value, _ in MOMENTS]
    found = spark.sql(f"select {', '.join(f'{t} as c{k}' for k, t in enumerate(ticks))}").collect()[0]
    back = [f"{_moment(found[k], kind)} = {value}" for k, (kind, value, _) in enumerate(MOMENTS)]
    later = [f"{_moment(found[k] + 1, kind)} > {value}" for k, (kind, value, _) in enumerate(MOMENTS)]
    checks = spark.sql(f"select {', '.join(f'({c}) as c{k}' for k, c in enumerate(back + later))}").collect()[0]
    assert all(checks), checks
    for k, (_, value, domain) in enumerate(MOMENTS):
        text = value.partition("'")[2].rstrip("'") or int(value.rstrip("L"))
        header = {"times": domain}
        assert moment_of(header, text, "since") == found[k]
        assert moment_of(header, written_out(header, found[k]), "since") == found[k]


def test_moments_as_users_write_them() -> None:
    zoned, plain = ({"times": {"kind": "timestamp", "unit": "us", "tz": tz}} for tz in ("UTC", None))
    noon = 1_709_208_000_000_000
    for when in ("2024-02-29T12:00", "2024-02-29 14:00+02:00", datetime(2024, 2, 29, 12, tzinfo=UTC)):
        assert moment_of(zoned, when, "since") == noon
    assert moment_of(plain, datetime(2024, 2, 29, 12), "since") == noon
    assert moment_of(plain, date(2024, 2, 29), "since") == noon - 43_200_000_000
    for header, when in ((plain, "2024-02-29T12:00+01:00"), (zoned, 5), (zoned, "soon"), (zoned, 1.5)):
        with pytest.raises(SpecError, match="since"):
            moment_of(header, when, "since")  # type: ignore[arg-type]
