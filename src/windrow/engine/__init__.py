"""Shards at work, one or several: rows in, matches and metrics out."""

from windrow.engine.engine import Engine
from windrow.engine.metrics import Metrics, StreamMetrics
from windrow.engine.queue import Queue, QueueMetrics
from windrow.engine.sharded import ShardedEngine

__all__ = ["Engine", "Metrics", "Queue", "QueueMetrics", "ShardedEngine", "StreamMetrics"]
