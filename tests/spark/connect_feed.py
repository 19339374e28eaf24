"""A program at a place: hands the files of a folder over to a site, as far as they go, through Spark Connect.

Started by test_sites.py with the server, the description, the stream, the folder, and whether the stream then ends.
"""

from __future__ import annotations

import sys
from typing import Any

from pyspark.sql import SparkSession

import windrow as wr


def fed(spark: Any, file: str, stream: str, folder: str) -> None:
    """Hand over what Spark finds in the folder that it has not handed over before."""
    frame = spark.readStream.schema("t long, k string, id long, more double").option("maxFilesPerTrigger", 1)
    query = wr.sites.feed(
        frame.parquet(folder), file, stream, checkpoint=f"{folder}.checkpoint", trigger={"availableNow": True}
    )
    query.awaitTermination()


if __name__ == "__main__":
    server, file, stream, folder, ends = sys.argv[1:]
    spark = SparkSession.builder.remote(server).getOrCreate()
    try:
        fed(spark, file, stream, folder)
        if ends == "ends":
            wr.sites.end(file, stream)
        print(type(spark).__module__)
    finally:
        spark.stop()
