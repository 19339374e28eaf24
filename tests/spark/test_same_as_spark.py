"""Below the budget the answer is Spark's own: the same multiset as its inner join with a range of event time."""

from __future__ import annotations

from typing import Any

import pytest
from tests.running import assert_same, multiset
from tests.spark.folders import KEYS, Folders
from tests.spark.joining import collected, joined, joined_by_spark, joined_by_spark_streaming, static, streamed

# key, shards, files of each stream per micro-batch, whether Spark's streaming join is asked too
CASES = [
    ("number", 1, 1, True),
    ("name", 7, 2, False),
    (["name", "area"], 7, 1, True),
    (["ratio", "flag"], 3, 6, False),
    (["price", "day", "number"], 2, 3, False),
]


@pytest.mark.parametrize(("on", "shards", "files", "streaming"), CASES, ids=str)
def test_streaming_gives_what_sparks_own_join_gives(
    spark: Any, folders: Folders, on: Any, shards: int, files: int, streaming: bool
) -> None:
    left, right = (streamed(spark, path, files) for path in folders.paths.values())
    found = multiset(collected(joined(left, right, on, shards=shards)))
    exact = multiset(joined_by_spark(*(static(spark, folders, side) for side in folders.paths), on).toArrow())
    assert_same(found, exact, f"seed {folders.seed}")
    assert exact.total() > 100
    if streaming:
        left, right = (streamed(spark, path, files) for path in folders.paths.values())
        assert_same(found, multiset(collected(joined_by_spark_streaming(left, right, on))), f"seed {folders.seed}")


@pytest.mark.parametrize("on", [*KEYS, ["name", "ratio", "moment"]], ids=str)
def test_batch_gives_what_sparks_own_join_gives(spark: Any, folders: Folders, on: Any) -> None:
    left, right = (static(spark, folders, side) for side in folders.paths)
    found, exact = joined(left, right, on, shards=4).toArrow(), joined_by_spark(left, right, on).toArrow()
    assert found.schema.equals(exact.schema)
    assert_same(multiset(found), multiset(exact), f"seed {folders.seed}")
    assert found.num_rows > 50
