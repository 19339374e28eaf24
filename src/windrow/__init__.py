"""windrow: join streams in fixed memory, and know what it cost.

Public names are loaded on first use, so that `import windrow` and the command line's help do not wait for compilers.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windrow import errors, policies, sites, spark, static, statistics
    from windrow.analysis import Analysis, analyse
    from windrow.api import Result, compare, join
    from windrow.cql.program import Cql as cql
    from windrow.engine import Engine, Metrics, Queue
    from windrow.offline.optimum import Optimum, optimum
    from windrow.spark.repair import repair
    from windrow.spec import (
        Band,
        Clustered,
        Compare,
        Demote,
        Distance,
        Equal,
        Filter,
        Integrity,
        Lose,
        Memory,
        Monitored,
        Ordered,
        Output,
        Query,
        Stream,
        Unique,
        Value,
        Window,
    )

__version__ = "0.1.0"

_HOME = {
    **dict.fromkeys(("Analysis", "analyse"), "windrow.analysis"),
    **dict.fromkeys(("Result", "compare", "join"), "windrow.api"),
    **dict.fromkeys(("Engine", "Metrics", "Queue"), "windrow.engine"),
    "repair": "windrow.spark.repair",
    **dict.fromkeys(("Optimum", "optimum"), "windrow.offline.optimum"),
    **dict.fromkeys(
        (
            "Band",
            "Clustered",
            "Compare",
            "Demote",
            "Distance",
            "Equal",
            "Filter",
            "Integrity",
            "Lose",
            "Memory",
            "Monitored",
            "Ordered",
            "Output",
            "Query",
            "Stream",
            "Unique",
            "Value",
            "Window",
        ),
        "windrow.spec",
    ),
}

__all__ = [
    "Analysis",
    "Band",
    "Clustered",
    "Compare",
    "Demote",
    "Distance",
    "Engine",
    "Equal",
    "Filter",
    "Integrity",
    "Lose",
    "Memory",
    "Metrics",
    "Monitored",
    "Optimum",
    "Ordered",
    "Output",
    "Query",
    "Queue",
    "Result",
    "Stream",
    "Unique",
    "Value",
    "Window",
    "analyse",
    "compare",
    "cql",
    "errors",
    "join",
    "optimum",
    "policies",
    "repair",
    "sites",
    "spark",
    "static",
    "statistics",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    if name in ("cql", "errors", "policies", "sites", "spark", "static", "statistics"):
        return import_module(f"windrow.{name}")
    raise AttributeError(f"module 'windrow' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
