"""What may change when a checkpoint goes on: every line of the table in docs/spark.md.

Can catch: a line of the table that is not true; a change that loses or doubles a match in silence; a refusal that does
not say what was, what is now, and what to do.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.driving import SCHEMA, WINDOW, Driven, archived, batches, exact, missed, query
from tests.streams import configurations, label

import windrow as wr
from windrow.errors import SnapshotError, WindrowError
from windrow.spark import join as joining
from windrow.spark.facts import facts_of, refuse_changes
from windrow.spark.job import Job, planned

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"
HONEST = [p for p in configurations() if not isinstance(getattr(p, "statistics", None), wr.statistics.Oracle)]
WIDE = pa.schema([*SCHEMA, ("extra", pa.int8())])

YES: dict[str, list[wr.Query]] = {
    "`memory`": [query(memory=3), query(memory=None), query(memory=wr.Memory(10, split=True)), query(memory="1 MB")],
    "`policy`, its parameters and statistics": [query(policy=policy) for policy in HONEST],
    "`sample`": [query(sample=0.5), query(sample="unbiased")],
    "`on_full`": [query(memory=500, on_full="fail")],
    "`lateness`": [query(lateness=0), query(lateness=9)],
    "`patience`": [query(patience=0), query(patience=5)],
}
OTHER_STREAMS = [wr.Stream("left", "t", 6, 2), wr.Stream("right", "id", 4, 2)]
FILTERED = [wr.Stream("left", "t", 6, 2, where=[("k", "=", 1)]), wr.Stream("right", "t", 4, 2)]
ENDLESS = [wr.Stream("left", "t", 6, 2), wr.Stream("right", "t", None, 2)]
NO: dict[str, dict[str, dict[str, Any]]] = {
    "`shards`": {"shards was 2 and is now 3": {"shards": 3}},
    "`on`": {"on was .*left.k.* and is now .*left.id": {"query": query(on=["left.id = right.id"])}},
    "`time`": {'time of right was "t" and is now "id"': {"query": query().with_(streams=OTHER_STREAMS)}},
    "`where`": {r"where of left was \[\] and is now": {"query": query().with_(streams=FILTERED)}},
    "`select`, `value`": {
        "select was .* and is now nothing": {"query": query(select=None)},
        "value was nothing and is now": {"query": query(value=wr.Value({"left": "id"}))},
    },
    "`seed`": {"seed was 0 and is now 4": {"query": query(seed=4)}},
    "`constraints`": {
        "constraints was nothing and is now .*monitored": {"query": query(constraints="auto")},
        "constraints was nothing and is now .*unique": {"query": query(constraints=[wr.Unique("left", "k")])},
    },
    "kind of a window, and which ends belong to it": {
        'window of right was {"kind": "time".* and is now {"kind": "unbounded"': {
            "query": query().with_(streams=ENDLESS)
        },
    },
}
APART = {
    "length of a window (`within`)",
    "`recall`",
    "`archive`: on, off, another folder",
    "`archive`: the same folder, moved",
    "columns that the join needs (with an archive all)",
    "columns that it does not need (without an archive)",
}


def test_the_table_has_exactly_the_lines_that_are_tested() -> None:
    text = PAGE.read_text().split("## What may change on restart")[1].split("\n## ")[0]
    lines = dict(re.findall(r"^\| (.+?) \| (yes|no)\b", text, re.MULTILINE))
    assert lines.keys() == YES.keys() | NO.keys() | APART
    assert {name for name in YES if lines[name] != "yes"} == {name for name in NO if lines[name] != "no"} == set()


CHANGES = [(name, other) for name, others in YES.items() for other in others]


@pytest.mark.parametrize("other", [o for _, o in CHANGES], ids=[f"{n} {label(o.policy)}" for n, o in CHANGES])
def test_what_may_change(other: wr.Query, tmp_path: Path) -> None:
    rows = batches(1, 8)
    driven = Driven(tmp_path).start(query())
    for k, batch in enumerate(rows):
        if k in (3, 6):
            driven.push(batch, commit=False)
            driven.start(other if k == 3 else query())
        driven.push(batch)
    lost = missed(archived(tmp_path), rows)
    assert lost.total() > 0
    assert driven.output + lost == exact(rows)


REFUSED = [(says, options) for cases in NO.values() for says, options in cases.items()]


@pytest.mark.parametrize(("says", "options"), REFUSED, ids=[says for says, _ in REFUSED])
@pytest.mark.parametrize("with_archive", [True, False])
def test_what_may_not_change(says: str, options: dict[str, Any], with_archive: bool, tmp_path: Path) -> None:
    rows = batches(2, 5)
    driven = Driven(tmp_path if with_archive else None).start(query())
    for batch in rows[:4]:
        driven.push(batch)
    given = {"query": query(), **options}
    with pytest.raises(WindrowError, match=says) as caught:
        driven.start(**given).push(rows[4])
    assert re.search(r"Set that back, or start anew: a new checkpoint and", str(caught.value))
    assert "of its own" not in str(caught.value)
    driven.start(query()).push(rows[4])


def test_windows_change_without_an_archive_only(tmp_path: Path) -> None:
    rows, longer = batches(3, 8), query(window={"left": 9, "right": 4})
    times = {row["id"]: row["t"] for batch in rows for table in batch.values() for row in table.to_pylist()}
    driven = Driven(None).start(query(memory=None))
    for k, batch in enumerate(rows):
        if k == 4:
            assert max(times[b] - times[a] for a, b in driven.output) < WINDOW["left"]
            driven.start(longer.with_(memory=None))
        driven.push(batch)
    assert WINDOW["left"] <= max(times[b] - times[a] for a, b in driven.output) < 9
    driven = Driven(tmp_path).start(query())
    driven.push(rows[0])
    with pytest.raises(WindrowError, match=r'window of left was .*"size": 6.* and is now .*"size": 9.*Set that back'):
        driven.start(longer)
    driven.start(query()).push(rows[1])


def test_recall_goes_off_and_not_on(tmp_path: Path) -> None:
    rows = batches(4, 6)
    driven = Driven(tmp_path).start(query())
    for k, batch in enumerate(rows):
        if k == 3:
            driven.start(query(), recall=False)
        driven.push(batch)
    with pytest.raises(SnapshotError, match=r"recall was off and is now on.*leave it off, or start anew"):
        driven.start(query()).push(rows[0])


def test_an_archive_stays_on_or_off(tmp_path: Path) -> None:
    rows = batches(5, 4)
    driven, bare = Driven(tmp_path / "lost").start(query()), Driven(None).start(query())
    for each in (driven, bare):
        each.push(rows[0])
    with pytest.raises(SnapshotError, match='archive was "on" and is now "off"'):
        driven.start(query(), archive=None).push(rows[1])
    with pytest.raises(SnapshotError, match='archive was "off" and is now "on"'):
        bare.start(query(), archive=tmp_path / "new").push(rows[1])
    with pytest.raises(SnapshotError, match="is not the one that this checkpoint has written to"):
        driven.start(query(), archive=tmp_path / "new").push(rows[1])
    (tmp_path / "lost").rename(tmp_path / "moved")
    driven.start(query(), archive=tmp_path / "moved").push(rows[1])


def test_columns_stay(tmp_path: Path) -> None:
    rows = batches(6, 3)
    driven = Driven(tmp_path).start(query())
    driven.push(rows[0])
    turned = pa.schema(list(SCHEMA)[::-1])
    other = SCHEMA.set(1, pa.field("k", pa.int32()))
    for schema, says in {
        WIDE: "right has a new column 'extra'",
        turned: "the columns of right are in another order",
        other: "right.k|column 'k' of right was int64 and is now int32",
    }.items():
        with pytest.raises(WindrowError, match=says):
            driven.start(query(), schemas=(SCHEMA, schema))
    wide = Driven(None, schemas=(SCHEMA, WIDE)).start(query())
    ones = pa.scalar(1, pa.int8())
    extra = [{**b, "right": b["right"].append_column("extra", pa.repeat(ones, len(b["right"])))} for b in rows]
    wide.push(extra[0])
    with pytest.raises(SnapshotError, match=r"right has no column 'extra' any more.*Set that back"):
        wide.start(query(), schemas=(SCHEMA, SCHEMA)).push(rows[1])
    wide.start(query(), schemas=(SCHEMA, WIDE)).push(extra[1])


def test_a_checkpoint_of_an_earlier_layout() -> None:
    driven = Driven(None).start(query())
    rows = batches(7, 2)
    driven.push(rows[0])
    driven.states = {shard: ("0123456789abcdef", *state[1:]) for shard, state in driven.states.items()}
    with pytest.raises(SnapshotError, match="the checkpoint was written by a windrow with another layout"):
        driven.push(rows[1])


def test_columns_that_are_not_needed_do_not_travel(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rate = spark.readStream.format("rate").load()
    jobs: list[Any] = []
    real = joining._operated
    monkeypatch.setattr(joining, "_operated", lambda job, *rest: jobs.append(job) or real(job, *rest))
    for columns in (("value as id", "value % 3 as k"), ("value as id", "value % 3 as k", "'more' as extra")):
        frame = rate.selectExpr("timestamp as ts", *columns)
        wr.join(frame, frame, on="k", time="ts", within="10 s", select={"a": "left.id", "b": "right.id"}, shards=2)
    assert facts_of(jobs[0]) == facts_of(jobs[1])


def test_matches_that_carry_the_watermark_no_longer() -> None:
    """So it is when the session has another state store; what is told must say so."""
    schemas = (SCHEMA, SCHEMA)
    without = facts_of(Job(query(), schemas, 2))
    carrying = facts_of(Job(query(), schemas, 2, ahead_ms=1024))
    with pytest.raises(SnapshotError, match=r"matches carried the watermark and now do not.*RocksDB state store"):
        refuse_changes(carrying, without, "the checkpoint", SnapshotError)
    with pytest.raises(SnapshotError, match=r"matches did not carry the watermark and now do,.*RocksDB state store"):
        refuse_changes(without, carrying, "the checkpoint", SnapshotError)
    longer = facts_of(Job(query(), schemas, 2, ahead_ms=2048))
    with pytest.raises(SnapshotError, match="matches may lie behind was 1024 and is now 2048") as told:
        refuse_changes(carrying, longer, "the checkpoint", SnapshotError)
    assert "longest window (within=) may change between 512 and 1,022 milliseconds" in str(told.value)
    moments = (pa.schema([("id", pa.int64()), ("k", pa.int64()), ("t", pa.timestamp("us"))]),) * 2
    for closed in ("right", "both"):
        windows = [wr.Window.time(f"{ms} ms", closed=closed) for ms in (510, 512, 1022, 1024)]
        joins = [wr.Query(streams=[wr.Stream(n, "t", w) for n in ("left", "right")], on="k") for w in windows]
        ages = [joining.age_ms(planned(Job(join, moments, 2))[0]) for join in joins]
        assert ages == [512, 1024, 1024, 2048]
    with pytest.raises(SnapshotError, match=r"shards was 2 and is now 3.*not given, spark\.sql\.shuffle\.partitions"):
        refuse_changes(without, facts_of(Job(query(), schemas, 3)), "the checkpoint", SnapshotError)
