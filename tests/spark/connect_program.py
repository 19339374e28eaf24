"""The core of these tests through Spark Connect; a program of its own, for a process speaks classic or Connect.

Writes one line of JSON: what was found to be equal, and the counters. Started by test_connect.py.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from tests.running import multiset
from tests.spark.folders import LATENESS, Folders, make_folders
from tests.spark.joining import collected, joined, joined_by_spark, started, static, streamed

import windrow as wr

TEXT = """
Select left.area, count(*) as n, min(right.id) as least
From left [Range 20 seconds], right [Range 10 seconds] Where left.name = right.name Group By left.area
"""


def main(address: str, root: Path, seed: int) -> dict[str, Any]:
    spark = SparkSession.builder.remote(address).getOrCreate()
    try:
        return found(spark, make_folders(root / "streams", seed), str(root / "archive"))
    finally:
        spark.stop()


def found(spark: Any, folders: Folders, archive: str) -> dict[str, Any]:
    sides = [static(spark, folders, side) for side in folders.paths]
    exact = multiset(joined_by_spark(*sides, "name").toArrow())
    batch = joined(*sides, "name", shards=3)
    answers = {"kind": type(batch).__module__, "rows": exact.total()}
    answers["batch"] = multiset(batch.toArrow()) == exact
    answers["batch_metrics"] = wr.spark.metrics(batch).to_dict()
    truncated = wr.static.truncate(*sides, on="name", keep=40)
    answers["static"] = truncated.left.count() + truncated.right.count() == 40
    answers["static"] &= truncated.join().count() == truncated.matches < truncated.exact_matches
    streams = [streamed(spark, path, 3) for path in folders.paths.values()]
    marked = [stream.withWatermark("ts", f"{LATENESS} seconds") for stream in streams]
    matches = joined(*marked, "name", lateness=0, shards=3)
    answers["streaming"] = multiset(collected(matches)) == exact
    answers["text"] = multiset(collected(wr.cql(TEXT).on_spark(dict(zip(folders.paths, marked, strict=True)), "ts")))
    twin = wr.cql(TEXT).start(time="ts", lateness=f"{LATENESS} seconds").push(folders.tables)
    answers["text"] = answers["text"] == multiset(twin) != {}
    answers["chained"] = refused(matches.withColumnRenamed("left_name", "name"), marked[1])
    wr.spark.tune(spark)  # the join before had whole snapshots, this one has deltas
    query, name = started(joined(*streams, "name", shards=3, memory=60, archive=archive))
    metrics = wr.spark.metrics(query)
    query.awaitTermination()
    output = multiset(spark.table(name).toArrow())
    answers["metrics"], answers["output"] = metrics.to_dict(), output.total()
    answers["repaired"] = output + multiset(wr.repair(archive, *sides).toArrow()) == exact
    return answers


def refused(matches: Any, stream: Any) -> str:
    """Why matches cannot be joined again in the same query."""
    try:
        wr.join(matches, stream, on="name", time={"left": "left_ts", "right": "ts"}, within="10 s")
    except wr.errors.SpecError as error:
        return str(error)
    return "it was not"


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))))
