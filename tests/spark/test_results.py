"""What the operator hands back to Spark, and the session settings that make handing over cheap."""

from typing import Any

import pyarrow as pa
import pytest
from tests.running import assert_same, multiset

import windrow as wr
from windrow import feed
from windrow.spark import operator
from windrow.spark.tune import SETTINGS


def engine_with(matches: int) -> tuple[wr.Engine, pa.Table]:
    streams = [wr.Stream(name, "t", 10) for name in ("a", "b")]
    engine = wr.Engine(wr.Query(streams=streams, on="k"))
    side = pa.table({"t": [1] * matches, "k": range(matches), "text": [f"row {i}" for i in range(matches)]})
    found = engine.push({"a": side, "b": side})
    assert found is not None and found.num_rows == matches
    return engine, found


def test_after_many_bytes_blobs_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many tables bring them: Spark counts records, not bytes, before it hands a batch on."""
    engine, found = engine_with(200_000)
    tables = [found.slice(k * 50_000, 50_000) for k in range(4)]
    monkeypatch.setattr(operator, "MOST_BYTES", tables[0].nbytes + 1)
    monkeypatch.setattr(operator, "BLOB_BYTES", 1024)
    results = list(operator.results(3, tables, engine))
    blobs = [blob.as_py() for result in results for blob in result["matches"] if blob.is_valid]
    assert len(blobs[0]) > 50_000 and len(blobs) > operator.MOST_BLOBS
    assert max(map(len, blobs[1:])) < 2 * 1024 + 1024  # a message has a head of its own
    rows = pa.Table.from_batches([pa.ipc.read_record_batch(blob, found.schema) for blob in blobs])
    assert rows.equals(found)
    assert max(result.num_rows for result in results) <= operator.MOST_BLOBS
    texts = [text for result in results for text in result["metrics"].to_pylist()]
    assert [text is not None for text in texts] == [False] * len(blobs) + [True]
    assert {shard for result in results for shard in result["shard"].to_pylist()} == {3}


def test_no_matches_are_no_blobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor do they end a join that has handed on many bytes before."""
    engine, found = engine_with(1)
    assert [result["matches"].to_pylist() for result in operator.results(0, [found.slice(1)], engine)] == [[None]]
    monkeypatch.setattr(operator, "MOST_BYTES", 0)
    numbers = found.select([name for name in found.column_names if "text" not in name])
    results = list(operator.results(0, [numbers, numbers.slice(1), numbers], engine))
    assert [len(result["matches"].drop_null()) for result in results] == [1, 1, 0]


@pytest.mark.parametrize(("memory", "policy"), [(None, "auto"), (60, "prob")])
def test_the_matches_of_a_hot_key_are_handed_on_in_small_parts(
    memory: int | None, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every row meets a hundred, so those of all rows at once would be a hundred times as many bytes as the rows."""
    sides = {
        name: pa.table({"t": [k * every for k in range(count)], "k": [k % 3 // 2 for k in range(count)]})
        for name, count, every in (("left", 9_000, 1), ("right", 150, 60))
    }
    query = wr.Query(
        streams=[wr.Stream(name, "t", 20_000) for name in sides], on="k", memory=memory, policy=policy, seed=3
    )
    engine = feed.engine_for(query, sides)
    whole = pa.concat_tables(feed.run(engine, sides))
    monkeypatch.setattr(feed, "MOST_BYTES", whole.nbytes // 20)
    paced = feed.engine_for(query, sides)
    parts = list(feed.run(paced, sides, pace=feed.Pace()))
    assert max(part.nbytes for part in parts[2:]) < 3 * feed.MOST_BYTES
    assert_same(multiset(pa.concat_tables(parts)), multiset(whole))
    told = [(m.matched, m.shed, m.expired, m.peak_rows, m.recall) for m in (paced.metrics, engine.metrics)]
    assert told[0] == told[1]


def test_tuning_says_what_was_set_before(spark: Any) -> None:
    assert wr.spark.tune(spark) == dict.fromkeys(SETTINGS)
    try:
        assert wr.spark.tune(spark) == SETTINGS
    finally:
        for name in SETTINGS:
            spark.conf.unset(name)
