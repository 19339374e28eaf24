"""Checks that concern several parts of a query at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from windrow.errors import SpecError, alternatives
from windrow.spec.constraints import Clustered, Constraint, Integrity, Lose, Monitored, Ordered, Unique
from windrow.spec.durations import Duration
from windrow.spec.graph import Graph, join_graph
from windrow.spec.output import Value
from windrow.spec.references import split_reference

if TYPE_CHECKING:
    from windrow.spec.predicates import Predicate
    from windrow.spec.query import Query


def check(query: Query) -> None:
    """Raise the first reason why the parts of `query` do not fit together."""
    for predicate in query.predicates:
        _check_known(predicate.streams, query.names, f"the predicate {predicate}")
    if not query.named:
        _check_connected(query.names, query.predicates, "")
    if query.select is not None:
        _check_known((split_reference(o.column)[0] for o in query.select), query.names, "select")
    if query.value is not None:
        if not isinstance(query.value, Value):
            raise SpecError(f"value must be a Value, got {query.value!r}")
        _check_known((stream for stream, _ in query.value.columns), query.names, "value")
    if query.named:
        _check_joins(query)
    _check_split(query)
    _check_times(query)
    _check_row_windows(query)
    _check_sample(query)
    if any(stream.sign is not None for stream in query.streams):
        _check_signed(query)
    if query.shards is not None and query.shards > 1:
        _check_shards(query)
    if query.constraints is None:
        if query.demotes is not None:
            raise SpecError(
                "on_violation='demote' is for rows that constraints release: set constraints, or leave it out"
            )
        if isinstance(query.on_violation, Lose):
            raise SpecError("on_violation=Lose is for rows that constraints release: set constraints, or leave it out")
    elif isinstance(query.constraints, Monitored) and isinstance(query.on_violation, Lose):
        raise SpecError("Lose is for declared constraints: what is found by watching has the sample of Monitored")
    else:
        _check_constraints(query)


def check_probe_order(order: Mapping[str, tuple[str, ...]], names: tuple[str, ...]) -> None:
    """Every stream has a probe order, and it visits every other stream once."""
    _check_known(order, names, "probe_order")
    for name in names:
        others = [other for other in names if other != name]
        if name not in order:
            raise SpecError(f"probe_order lacks the stream {name!r}: give every stream an order")
        if sorted(map(str, order[name])) != sorted(others):
            raise SpecError(
                f"probe_order of {name!r} must visit each of {', '.join(others)} once, "
                f"got {', '.join(map(str, order[name])) or 'nothing'}"
            )


def _check_known(streams: Iterable[str], names: tuple[str, ...], where: str) -> None:
    for stream in streams:
        if stream not in names:
            near = alternatives(str(stream), names, "streams")
            raise SpecError(f"{where} names the stream {stream!r}, which the query does not have{near}")


def _check_connected(names: Sequence[str], predicates: Sequence[Predicate], where: str) -> None:
    """All streams hang together through predicates; otherwise the join would multiply unrelated rows."""
    reached, waiting = {names[0]}, list(predicates)
    while step := [predicate for predicate in waiting if reached & set(predicate.streams)]:
        reached.update(name for predicate in step for name in predicate.streams)
        waiting = [predicate for predicate in waiting if predicate not in step]
    if apart := [name for name in names if name not in reached]:
        raise SpecError(
            f"{where}no predicate connects the stream {apart[0]!r} with {names[0]!r}: add one to on, "
            f"such as Equal('{names[0]}.column', '{apart[0]}.column')"
        )


def _check_joins(query: Query) -> None:
    """Each named join hangs together and has output columns, and every stream is in one."""
    joined = {name: join.name for join in query.joins for name in join.streams(query.names)}
    if apart := [name for name in query.names if name not in joined]:
        raise SpecError(f"the stream {apart[0]!r} is in none of the joins: name it in a predicate, or leave it out")
    for join in query.joins:
        streams = join.streams(query.names)
        _check_connected(streams, join.on, f"the join {join.name!r}: ")
        if query.select is not None and not {split_reference(o.column)[0] for o in query.select} & set(streams):
            raise SpecError(f"select has no column of the streams of the join {join.name!r}: add one, or leave it out")
    if query.value is not None:
        raise SpecError("value says what the matches of one join are worth, and this query names its joins: drop one")
    if query.probe_order is not None:
        raise SpecError("probe_order is for one join, and this query names its joins: leave it to the engine")


def _check_split(query: Query) -> None:
    if query.memory is None or not isinstance(query.memory.split, tuple):
        return
    split = dict(query.memory.split)
    _check_known(split, query.names, "the split of memory")
    if missing := [name for name in query.names if name not in split]:
        raise SpecError(f"the split of memory gives nothing to the stream {missing[0]!r}: name every stream")


def _check_times(query: Query) -> None:
    """Times of different streams are compared, so they must be of one sort."""
    units = {unit: stream.name for stream in query.streams for unit in stream.units}
    if query.patience is not None and query.patience.amount:
        units.setdefault(query.patience.unit, "patience")
    if len(units) > 1:
        raise SpecError(
            f"{units['steps']!r} measures time in whole numbers, {units['ns']!r} in seconds or the like: "
            "event times must be of one sort in the whole query"
        )
    timed = [stream for stream in query.streams if stream.time is not None]
    untimed = [stream for stream in query.streams if stream.time is None]
    by_time = query.order == "time" or any(s.window.kind in ("time", "landmark") for s in query.streams)
    if timed and untimed and by_time:
        raise SpecError(
            f"the stream {timed[0].name!r} has a time column and {untimed[0].name!r} has none, so "
            "their rows have no common order: give all streams a time column, or use order='arrival' "
            "with windows in rows"
        )
    if not timed and "ns" in units:
        raise SpecError(f"patience is {query.patience}, but no stream has a time column: set time=")


def _check_row_windows(query: Query) -> None:
    for stream in query.streams:
        late = stream.time is not None and stream.lateness.amount > 0
        if stream.window.kind == "rows" and late and query.order == "time":
            raise SpecError(
                f"stream {stream.name!r}: a window in rows needs an order: set order='arrival' or lateness=0"
            )


def _check_sample(query: Query) -> None:
    if query.sample is None:
        return
    if query.on_full == "fail":
        raise SpecError("sample leaves rows out and on_full='fail' allows no loss: drop one of them")
    for stream in query.streams:
        if query.sample == "unbiased" and stream.window.kind not in ("time", "rows"):
            raise SpecError(
                f"sample='unbiased' keeps as many rows as expire, but the window of {stream.name!r} "
                f"({stream.window}) has no end: give a window in time or rows, or a probability"
            )


def _check_signed(query: Query) -> None:
    """A deletion must find its row, or that it has left for good: nothing may be shed, and rows come in order."""
    name = next(stream.name for stream in query.streams if stream.sign is not None)
    if query.memory is not None and query.on_full == "shed":
        raise SpecError(
            f"stream {name!r} brings deletions, and the deletion of a row that was shed cannot be told from others: "
            "set on_full='fail', or leave memory out"
        )
    if query.named:
        raise SpecError(f"stream {name!r} brings deletions, which joins with names do not take: use one query each")
    if query.demotes is not None:
        raise SpecError(f"stream {name!r} brings deletions, which do not find rows on disk: leave on_violation out")
    if query.shards is not None and query.shards > 1:
        raise SpecError(f"stream {name!r} brings deletions, which are not sent to shards: leave shards out")
    if late := [stream.name for stream in query.streams if stream.lateness.amount]:
        raise SpecError(
            f"stream {late[0]!r} has a lateness, and deletions need rows in order: set lateness=0, and hold rows back "
            "until none before them can come"
        )


def _check_shards(query: Query) -> None:
    """Each shard sees some of the rows: what goes by their number or their order among all of them needs one shard."""
    if query.named:
        raise SpecError(
            "shards send the rows of one join to where its keys meet, and this query names its joins: leave shards "
            "out, or run each as a query of its own"
        )
    if query.order == "arrival":
        raise SpecError("shards need order='time': the order of arrival over all rows is known to none of them")
    for stream in query.streams:
        if stream.window.kind == "rows":
            raise SpecError(
                f"the window of {stream.name!r} counts arrivals over all shards, which none of them sees: use a window "
                "in time, or leave shards out"
            )


def _check_constraints(query: Query) -> None:
    """Every declared constraint speaks of streams, columns and times that the query joins by."""
    if query.named:
        raise SpecError(
            "constraints release rows that one join needs no more, and this query names its joins: leave constraints "
            "out, or run each as a query of its own"
        )
    if not isinstance(query.constraints, tuple):
        return
    graph = join_graph(query)
    for constraint in query.constraints:
        where = f"the constraint {constraint}"
        _check_known(constraint.streams, query.names, where)
        if isinstance(constraint, Integrity):
            _check_integrity(graph, constraint)
        else:
            _check_joined(graph, constraint)
        k = getattr(constraint, "k", None)
        if isinstance(k, Duration):
            _check_adherence(query, constraint, k)


def _check_integrity(graph: Graph, constraint: Integrity) -> None:
    if tuple(map(graph.names.index, constraint.streams)) not in graph.pairs:
        raise SpecError(
            f"the constraint {constraint}: no predicate joins {constraint.parent!r} with {constraint.child!r}, so "
            "none of their rows are partners: name two streams that share a predicate"
        )


def _check_joined(graph: Graph, constraint: Constraint) -> None:
    """A constraint on columns that are not compared for equality would release nothing, which nobody means."""
    (name,) = constraint.streams
    stream = graph.names.index(name)
    edges = [{own for own, _ in graph.pairs[stream, other]} for other in graph.neighbours(stream)]
    assert isinstance(constraint, (Unique, Clustered, Ordered))
    columns = {column for _, column in constraint.columns_of}
    if any(columns <= edge for edge in edges):
        return
    known = sorted(set().union(*edges))
    joined = f"it is joined by {', '.join(known)}" if known else "it is joined by no equality"
    one = "no join has all of these columns" if len(columns) > 1 else "no join has this column"
    raise SpecError(
        f"the constraint {constraint} releases nothing: {one} of {name!r}; {joined}. "
        "Declare it on columns of one join, or leave it out"
    )


def _check_adherence(query: Query, constraint: Constraint, k: Duration) -> None:
    for name in constraint.streams:
        if query.stream(name).time is None:
            raise SpecError(
                f"the constraint {constraint}: stream {name!r} has no time column: set time=, or give k in rows"
            )
    units = {unit for stream in query.streams for unit in stream.units}
    if units and k.unit not in units:
        sort = "whole numbers" if k.unit == "ns" else "seconds or the like"
        raise SpecError(
            f"the constraint {constraint}: k is {k}, but event times of this query are {sort}: give k in that sort, "
            "or in rows"
        )
