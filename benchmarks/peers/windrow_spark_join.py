"""windrow on Spark: a batch join of the same CSV files, and the same sum over the matches as the others."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from turns import main

import windrow as wr

SCHEMA = "ts long, key long, amount double"


def join(left: str, right: str, bound_ms: int, workers: int) -> int:
    builder = SparkSession.builder.master(f"local[{workers}]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.shuffle.partitions", workers).config("spark.driver.memory", "4g").getOrCreate()
    a, b = (spark.read.schema(SCHEMA).option("header", True).csv(path) for path in (left, right))
    matches = wr.join(a, b, on="key", time="ts", within=bound_ms + 1)
    count, total = matches.agg(F.count(F.lit(1)), F.sum(F.col("left_amount") + F.col("right_amount"))).first()
    assert total is not None
    return int(count)


if __name__ == "__main__":
    main(join)
