"""A static truncated join on Spark: 10 million rows, of which one in ten may travel.

Spark counts the keys, the driver chooses from the counts, Spark picks the rows and joins them. Timed: the call that
chooses (two jobs that count), and what it leads to (rows kept, counted; their join, counted). The counts are asserted
to be those that were promised; the join of the optimal choice is computed, others from rows per key. Beside them stand
the matches of all rows, and the bytes of histograms, requests and rows.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parents[1]))
from harness import save, show

import windrow as wr


def relation(spark: Any, folder: str, name: str, rows: int, keys: int, seed: int) -> Any:
    """A relation of skewed keys with a text beside them, in Parquet files."""
    path = f"{folder}/{name}"
    key = f"cast(pow(rand({seed}), 1.5) * {keys} as int)"
    text = f"substr(sha2(cast(id as string), 256), 1, 8 + cast(rand({seed + 1}) * 24 as int))"
    spark.range(0, rows, 1, 4).selectExpr(f"{key} as k", "id", f"{text} as text").write.parquet(path)
    return spark.read.parquet(path)


def joined_count(result: Any) -> int:
    return int(result.join().count())


def matches_by_key(result: Any) -> int:
    """The size of a join, from the rows per key: the join itself has hundreds of millions of matches."""
    sides = ((result.left, "m"), (result.right, "n"))
    counts = [side.groupBy("k").count().withColumnRenamed("count", name) for side, name in sides]
    return int(counts[0].join(counts[1], "k").selectExpr("sum(m * n)").first()[0])


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="of both relations together")
    parser.add_argument("--keys", type=int, default=100_000)
    given = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").appName("static").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "4").config("spark.driver.memory", "3g")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.sql.adaptive.coalescePartitions.enabled", "false")
    spark = builder.config("spark.log.level", "ERROR").getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        names = ("left", "right")
        sides = [relation(spark, folder, n, given.rows // 2, given.keys, 7 * k) for k, n in enumerate(names)]
        wr.static.truncate(*(side.limit(1000) for side in sides), on="k", keep=10)  # loads kernels
        lines, figures = [], {}
        whole = matches_by_key(SimpleNamespace(left=sides[0], right=sides[1]))
        for method in ("optimal", "adg"):
            keep = given.rows // 10
            seconds, result = timed(lambda m=method, k=keep: wr.static.truncate(*sides, on="k", keep=k, method=m))
            assert result.exact_matches == whole
            print(f"{method}: chosen in {seconds:.1f} s; {result.bytes}", flush=True)
            kept_seconds, kept = timed(lambda r=result: r.left.count() + r.right.count())
            count = joined_count if result.optimal else matches_by_key
            join_seconds, matches = timed(lambda r=result, c=count: c(r))
            assert kept == given.rows // 10 and matches == result.matches
            size = result.bytes
            print(f"{method}: picked in {kept_seconds:.1f} s, joined in {join_seconds:.1f} s", flush=True)
            lines.append((method, seconds, kept_seconds, join_seconds, f"{result.recall:.4%}", f"{size.share:.2%}"))
            figures[method] = {
                "choose_s": seconds, "pick_s": kept_seconds, "join_s": join_seconds, "matches": matches,
                "recall": result.recall, "histograms": size.histograms, "requests": size.requests, "rows": size.rows,
                "everything": size.everything, "cut": len(result.cut),
            }  # fmt: skip
        show(
            f"{given.rows:,} rows, {given.keys:,} keys, a tenth kept; all: {whole:,} matches",
            ("", "choose s", "pick s", "join s", "recall", "bytes / everything"),
            lines,
        )
        best = figures["optimal"]
        print("\nbytes:", ", ".join(f"{k} {best[k]:,}" for k in ("histograms", "requests", "rows", "everything")))
        about = {"rows": given.rows, "keys": given.keys, "matches": whole}
        print(f"wrote {save('static_spark', {**about, **figures})}")
    spark.stop()


if __name__ == "__main__":
    main()
