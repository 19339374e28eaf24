"""One shard at work: rows in, matches and metrics out."""

from windrow.engine.engine import Engine
from windrow.engine.metrics import Metrics, StreamMetrics

__all__ = ["Engine", "Metrics", "StreamMetrics"]
