"""What a join is: streams, windows, predicates, memory, and the query that holds them together."""

from __future__ import annotations

from windrow.spec.bytesize import format_bytes, parse_bytes
from windrow.spec.changes import changes, query_changes
from windrow.spec.constraints import (
    Clustered,
    Constraint,
    Demote,
    Integrity,
    Lose,
    Monitored,
    OnViolation,
    Ordered,
    Unique,
)
from windrow.spec.durations import Duration, DurationLike, parse_duration
from windrow.spec.filters import Filter
from windrow.spec.graph import Graph, join_graph, useful
from windrow.spec.memory import Memory
from windrow.spec.output import Output, Value
from windrow.spec.pair import pair_query
from windrow.spec.predicates import Band, Compare, Distance, Equal, Predicate
from windrow.spec.query import Query
from windrow.spec.references import split_reference
from windrow.spec.shard import shard_query
from windrow.spec.stream import Stream
from windrow.spec.window import Window, WindowLike

__all__ = [
    "Band",
    "Clustered",
    "Compare",
    "Constraint",
    "Demote",
    "Distance",
    "Duration",
    "DurationLike",
    "Equal",
    "Filter",
    "Graph",
    "Integrity",
    "Lose",
    "Memory",
    "Monitored",
    "OnViolation",
    "Ordered",
    "Output",
    "Predicate",
    "Query",
    "Stream",
    "Unique",
    "Value",
    "Window",
    "WindowLike",
    "changes",
    "format_bytes",
    "join_graph",
    "pair_query",
    "parse_bytes",
    "parse_duration",
    "query_changes",
    "shard_query",
    "split_reference",
    "useful",
]
