"""`windrow.analyse`: what streams are like, and which policy that calls for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from windrow.analysis.advice import Advice, advice
from windrow.analysis.coded import coded
from windrow.analysis.locality import Locality, locality
from windrow.analysis.pairs import Clustering, clustering, pair_of
from windrow.analysis.trials import Trials, trials
from windrow.record import Record, whole
from windrow.spec import Query, pair_query

WINDOW = 1_000


@dataclass(frozen=True)
class Analysis:
    """One stream or two: what each shows by itself, how their matches cluster, and what follows for a join.

    Of one stream, matches are those of its rows in odd places with its rows in even ones.
    """

    streams: tuple[Locality, ...]
    window: int  # in rows of each stream
    clustering: Clustering
    trials: Trials
    advice: Advice

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data, but for the numbers of single keys."""
        found: dict[str, Any] = _plain(self)
        for stream in found["streams"]:
            del stream["popularity"]["frequencies"], stream["ages"]["values"]
        winner = self.trials.winner
        found["trials"]["winner"] = winner.label if winner else None
        return found


def analyse(
    left: Any,
    right: Any = None,
    *,
    on: Any,
    time: str | Mapping[str, str] | None = None,
    window: int = WINDOW,
    where: Mapping[str, Iterable[Any]] | None = None,
    seed: int = 0,
) -> Analysis:
    """Analyse the popularity and the locality of the keys of one stream, or of two that are to be joined.

    Parameters:
        left, right: Arrow tables, pandas or Polars data frames; right may be left out.
        on: the key: a column, a list of columns, or equalities of "left.column" and "right.column".
        time: the event-time column (of each side, if they differ), by which rows are put in order. Without one the
            order is that of the table, and the streams bring a row each in turn.
        window: rows of a stream that an arriving row of the other may match.
        seed: of every permutation, and of policies that draw.

    >>> import pyarrow as pa
    >>> bursts = pa.table({"k": [row // 10 % 40 for row in range(4000)]})
    >>> found = analyse(bursts, on="k", window=20)
    >>> found.streams[0].popularity.keys, found.streams[0].popularity.top_share
    (40, 0.025)
    >>> found.streams[0].stack.found.median, found.clustering.j > 4
    (0.0, True)
    """
    query = pair_query(on, time, where=where)
    given = {"left": left} if right is None else {"left": left, "right": right}
    return analysis_of(query, given, window, seed)


def analysis_of(query: Query, given: Mapping[str, Any], window: int = WINDOW, seed: int = 0) -> Analysis:
    """The analysis of the streams of a query, or of its first if that alone is given."""
    window, seed = whole(window, "window", least=1), whole(seed, "seed")
    streams = coded(query, given)
    found = tuple(locality(stream, other, window, seed) for stream, other in zip(streams, streams[::-1], strict=True))
    pair = pair_of(streams, window)
    clusters, tried = clustering(pair, seed), trials(pair, seed)
    return Analysis(found, window, clusters, tried, advice(tried, clusters, found, pair))


def _plain(value: Any) -> Any:
    """Records as dictionaries, policies in their own plain form, tuples as lists."""
    if isinstance(value, Record):
        return value.to_dict()
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
