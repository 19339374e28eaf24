"""Hypothesis strategies for every part of a query."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from hypothesis import reject
from hypothesis import strategies as st

from windrow import policies, statistics
from windrow.errors import SpecError
from windrow.policies import greedy_dual
from windrow.record import Record
from windrow.spec import (
    Band,
    Clustered,
    Compare,
    Distance,
    Duration,
    Equal,
    Filter,
    Integrity,
    Memory,
    Ordered,
    Output,
    Query,
    Stream,
    Unique,
    Value,
    Window,
    useful,
)
from windrow.spec.constraints import Demote, Lose, Monitored
from windrow.spec.joins import NamedJoin
from windrow.spec.predicates import PREDICATES

names = st.text("abcxyz_09é", min_size=1, max_size=6).filter(str.isidentifier)
columns = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).filter(lambda t: bool(t.strip()))
positive = st.integers(1, 2**63 - 1)
finite = st.floats(0, allow_nan=False, allow_infinity=False) | st.integers(0, 10**12)

window_kinds = st.sampled_from(["right", "left", "both", "neither"])


def time_windows(unit: Any) -> st.SearchStrategy[Window]:
    return st.builds(Window.time, st.builds(Duration, positive, unit), window_kinds)


windows = st.one_of(
    time_windows(st.sampled_from(["ns", "steps"])),
    st.builds(Window.rows, positive),
    st.builds(Window.landmark, st.integers(-(2**63), 2**63 - 1)),
    st.builds(
        Window.landmark,
        st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1), timezones=st.none() | st.just(UTC)),
    ),
    st.just(Window.unbounded()),
)

scalars = st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
filters = st.one_of(
    st.builds(Filter, columns, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), scalars),
    st.builds(Filter, columns, st.sampled_from(["in", "not in"]), st.lists(scalars, min_size=1, max_size=3)),
    st.builds(Filter, columns, st.sampled_from(["is null", "is not null"])),
)

half_lives = st.integers(1, 10**9)
each_statistic: dict[type[statistics.Statistic], st.SearchStrategy[Any]] = {
    statistics.Oracle: st.just(statistics.Oracle()),
    statistics.Running: st.just(statistics.Running()),
    statistics.Decayed: st.builds(statistics.Decayed, half_lives),
    statistics.Sketch: st.builds(statistics.Sketch, st.integers(1, 2**20), st.integers(1, 16), st.none() | half_lives),
}
any_statistics = st.one_of(*each_statistic.values())


parameters = {
    "statistics": any_statistics,
    "initial": st.floats(0, 1) | st.sampled_from(greedy_dual.INITIALS),
    "method": st.sampled_from(greedy_dual.METHODS),
    "curve": st.none() | st.lists(finite, min_size=1, max_size=4),
    "column": columns,
}
"""Values for every parameter that a policy has, by the parameter's name."""


@st.composite
def configured(draw: st.DrawFn, kind: type[policies.Policy]) -> policies.Policy:
    """A policy of this kind, with any values that it takes."""
    values = draw(st.fixed_dictionaries({field.name: parameters[field.name] for field in fields(kind)}))
    try:
        return kind(**values)
    except SpecError:  # an initial credit that does not go with the method
        reject()


any_policies = st.sampled_from(policies.ALL).flatmap(configured)


def references(stream: str) -> st.SearchStrategy[str]:
    return columns.map(lambda column: f"{stream}.{column}")


@st.composite
def predicates(draw: st.DrawFn, left: str = "a", right: str = "b", kinds: Any = PREDICATES) -> Any:
    kind = draw(st.sampled_from(kinds))
    if kind is Distance:
        size = draw(st.integers(1, 3))
        sides = [draw(st.lists(references(s), min_size=size, max_size=size)) for s in (left, right)]
        return Distance(sides[0], sides[1], draw(finite))
    one, other = draw(references(left)), draw(references(right))
    if kind is Compare:
        return Compare(one, draw(st.sampled_from(["<", "<=", ">", ">=", "!="])), other)
    if kind is Band:
        return Band(one, other, draw(finite | st.builds(Duration, positive, st.just("ns"))))
    return Equal(one, other)


@st.composite
def memories(draw: st.DrawFn, streams: tuple[str, ...] = ("a", "b")) -> Memory:
    limit: int | str = draw(
        st.one_of(
            positive,
            positive.map(lambda size: f"{size} B"),
            st.floats(0.001, 100, allow_nan=False).map(lambda share: f"{share:.7f}%"),
        )
    )
    ratios = st.fixed_dictionaries({name: st.floats(0.01, 100) for name in streams})
    return Memory(limit, split=draw(st.none() | st.just(True) | ratios))


@st.composite
def streams(draw: st.DrawFn, name: str, unit: str, deletions: bool = False) -> Stream:
    lateness = Duration(draw(st.integers(0, 10**15)), unit)  # type: ignore[arg-type]
    window = draw(time_windows(st.just(unit)) | st.just(Window.unbounded()))
    time = draw(columns)
    sign = draw(st.none() | columns.filter(lambda column: column != time)) if deletions else None
    identity = None if sign is None else draw(st.none() | st.lists(columns, min_size=1, max_size=2, unique=True))
    conditions = draw(st.lists(filters, max_size=2))
    return Stream(name, time, window, lateness, conditions, sign=sign, identity=identity)


@st.composite
def queries(draw: st.DrawFn, labels: tuple[str, ...] = ()) -> Query:
    labels = labels or tuple(draw(st.lists(names, min_size=2, max_size=4, unique=True)))
    unit = draw(st.sampled_from(["ns", "steps"]))
    chain = [draw(predicates(one, other)) for one, other in pairwise(labels)]
    outputs = st.lists(st.sampled_from(labels).flatmap(references), min_size=1, max_size=4)
    selected = draw(st.none() | outputs)
    orders = {name: draw(st.permutations([other for other in labels if other != name])) for name in labels}
    order = draw(st.sampled_from(["time", "arrival"]))
    on_full = draw(st.sampled_from(["shed", "fail"]))
    plain = Query(
        streams=[draw(streams(name, unit)) for name in labels],
        on=chain,
        select=selected and [Output(column, f"c{i}") for i, column in enumerate(selected)],
        value=draw(st.none() | st.just(Value(dict.fromkeys(labels, "v"), "sum"))),
        memory=draw(st.none() | memories(labels)),
        policy=draw(any_policies),
        on_full=on_full,
        order=order,
        patience=draw(st.none() | st.builds(Duration, positive, st.just(unit))),
        probe_order=draw(st.none() | st.just(orders)),
        seed=draw(st.integers(0, 2**63 - 1)),
        sample=draw(st.none() | st.floats(0, 1, exclude_max=True)) if on_full == "shed" else None,
        shards=draw(st.none() | st.integers(1, 1 << 16 if order == "time" else 1)),
    )
    declared = st.lists(st.sampled_from(useful(plain)), max_size=3, unique=True).flatmap(with_adherence(unit))
    promised = draw(st.sampled_from([None, "watch", "auto"]) | declared)
    broken = st.sampled_from(["lose", "demote"]) | demotes | (st.nothing() if isinstance(promised, str) else loses)
    return plain.with_(constraints=promised, on_violation=draw(broken) if promised else "lose")


loses = st.builds(Lose, st.floats(0.0, 1.0))
demotes = st.builds(Demote, st.none() | st.sampled_from(["a", "b"]), st.integers(2**20, 2**62))


def adherences(unit: Any) -> st.SearchStrategy[Any]:
    return st.integers(0, 2**63 - 1) | st.builds(Duration, st.integers(0, 2**63 - 1), unit)


def with_adherence(unit: str) -> Any:
    """A function from constraints to strategies for them, with any k."""

    def any_k(constraint: Any) -> st.SearchStrategy[Any]:
        if isinstance(constraint, Unique):
            return st.just(constraint)
        return adherences(st.just(unit)).map(lambda k: constraint.with_(k=k))

    return lambda constraints: st.tuples(*map(any_k, constraints))


some_columns = st.lists(columns, min_size=1, max_size=3, unique=True)
any_k = adherences(st.sampled_from(["ns", "steps"]))
CONSTRAINTS: dict[type[Record], st.SearchStrategy[Any]] = {
    Unique: st.builds(Unique, names, some_columns),
    Integrity: st.builds(Integrity, names.map(lambda name: f"{name}p"), names.map(lambda name: f"{name}c"), any_k),
    Clustered: st.builds(Clustered, names, some_columns, any_k),
    Ordered: st.builds(Ordered, names, columns, any_k),
}

RECORDS: dict[type[Record], st.SearchStrategy[Any]] = {
    Demote: demotes,
    Filter: filters,
    Lose: loses,
    Memory: memories(),
    Monitored: st.builds(
        Monitored,
        st.booleans(),
        st.floats(1.0, 10.0),
        st.floats(0.0, 1.0),
        st.integers(1, 2**63 - 1),
        st.integers(0, 2**63 - 1),
    ),
    NamedJoin: st.builds(NamedJoin, names, st.lists(predicates(), min_size=1, max_size=2).map(tuple)),
    Output: st.builds(Output, references("a"), st.none() | columns),
    Query: queries(("a", "b")),
    Stream: st.tuples(names, st.sampled_from(["ns", "steps"])).flatmap(lambda drawn: streams(*drawn, deletions=True)),
    Value: st.builds(Value, st.dictionaries(names, columns, min_size=1), st.sampled_from(["product", "sum"])),
    Window: windows,
    **CONSTRAINTS,
    **{kind: predicates(kinds=[kind]) for kind in PREDICATES},
    **each_statistic,
    **{kind: configured(kind) for kind in (*policies.ALL, policies.Given)},
}
"""Records of every kind. Two queries have the same streams, so that a part of one often fits into the other."""
