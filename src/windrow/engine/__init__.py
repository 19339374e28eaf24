"""One shard at work: rows in, matches and metrics out."""

from windrow.engine.engine import Engine
from windrow.engine.metrics import Metrics, StreamMetrics
from windrow.engine.queue import Queue, QueueMetrics

__all__ = ["Engine", "Metrics", "Queue", "QueueMetrics", "StreamMetrics"]
