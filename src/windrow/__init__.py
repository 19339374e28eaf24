"""windrow: join streams in fixed memory, and know what it cost."""

from windrow import errors, policies, statistics
from windrow.api import Result, join
from windrow.engine import Engine, Metrics
from windrow.spec import (
    Band,
    Compare,
    Distance,
    Equal,
    Filter,
    Memory,
    Output,
    Query,
    Stream,
    Value,
    Window,
)

__version__ = "0.1.0"

__all__ = [
    "Band",
    "Compare",
    "Distance",
    "Engine",
    "Equal",
    "Filter",
    "Memory",
    "Metrics",
    "Output",
    "Query",
    "Result",
    "Stream",
    "Value",
    "Window",
    "errors",
    "join",
    "policies",
    "statistics",
]
