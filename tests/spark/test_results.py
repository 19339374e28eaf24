"""What the operator hands back to Spark, and the session settings that make handing over cheap."""

from typing import Any

import pyarrow as pa
import pytest

import windrow as wr
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


def test_no_matches_are_no_blobs() -> None:
    engine, found = engine_with(1)
    assert [result["matches"].to_pylist() for result in operator.results(0, [found.slice(1)], engine)] == [[None]]


def test_tuning_says_what_was_set_before(spark: Any) -> None:
    assert wr.spark.tune(spark) == dict.fromkeys(SETTINGS)
    try:
        assert wr.spark.tune(spark) == SETTINGS
    finally:
        for name in SETTINGS:
            spark.conf.unset(name)
