"""windrow on Spark: the same engine, one per shard, behind ordinary DataFrames.

    frames    -> pack (rows become one Arrow blob per shard, by routing)
              -> shuffle by shard
              -> operator (one engine per shard; its snapshot is the state)
              -> unpack (blobs become rows)

Streaming and batch, Spark classic and Spark Connect. Nothing here creates or stops a session, and pyspark is imported
only when a Spark DataFrame has been given.
"""

from windrow.spark.frames import is_spark_frame
from windrow.spark.join import on_spark
from windrow.spark.metrics import QueryMetrics, metrics
from windrow.spark.repair import repair
from windrow.spark.tune import tune
from windrow.spark.upkeep import Upkeep, compact, forget

__all__ = ["QueryMetrics", "Upkeep", "compact", "forget", "is_spark_frame", "metrics", "on_spark", "repair", "tune"]
