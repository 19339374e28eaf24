"""Binding a query, and the sizes of a plan's parts, are worked out once; what is remembered is what would be found.

Catches: a part that grows with the capacity and is not said to, a block of another size than its parts, a query that is
bound as another one was, or under other schemas or another clock, a notice of compiling that speaks of another join.
"""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pytest

import windrow as wr
from windrow import policies
from windrow.engine import compile_notice
from windrow.engine.bind import bind
from windrow.kernels.notice import Notice
from windrow.spec import Band
from windrow.state import shard
from windrow.state.block import block_bytes, start
from windrow.state.parts import PARTS, Capacity, parts
from windrow.state.plan import Plan
from windrow.state.probe_orders import first_route

SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.int64()), ("x", pa.float64())])
NAMES = "abc"
STREAMS = [wr.Stream(name, "t", 10) for name in NAMES]
NEAR = [Band(f"{one}.x", f"{other}.x", 0.5) for one, other in ("ab", "bc")]
ALL = [policies.Auto(), *(policy() for policy in policies.ALL if policy is not policies.Auto), policies.Given("x")]
CAPACITIES = (
    Capacity(), Capacity(16, 32, 2, 64), Capacity(16, 32, 2, 64, begun=0), Capacity(0, 0, 1, 64),
    Capacity(4096, 8, 300, 1 << 12),
)  # fmt: skip


def plan(**options: object) -> Plan:
    return bind(wr.Query(streams=STREAMS, **options), dict.fromkeys(NAMES, SCHEMA)).plan


@pytest.mark.parametrize("policy", ALL, ids=lambda policy: policy.name)
@pytest.mark.parametrize("on", ["k", NEAR], ids=["key", "near"])
@pytest.mark.parametrize("memory", [100, "10 MB"])
def test_parts_are_as_large_as_they_say_whatever_was_remembered(
    policy: policies.Policy, on: object, memory: object
) -> None:
    made = plan(on=on, memory=memory, policy=policy)
    check_sizes(made)


def test_parts_of_a_join_that_demotes_are_as_large_as_they_say() -> None:
    check_sizes(plan(on="k", constraints="auto", on_violation="demote"))


def check_sizes(made: Plan) -> None:
    """Also of a plan that knows from an earlier one what is known of it, against one that knows nothing."""
    parts(made, Capacity(), 0), made.most_rows()
    other = made.budgeted(cap_rows=(5,) * made.pools, cap_bytes=(10_000,) * made.pools, idle_limit=3, fork_bytes=99)
    for known in (made, other, other.with_room(1 << 20), other.for_sample(np.ones(made.pools), np.ones(made.pools), 2)):
        fresh = replace(known)
        assert not set(vars(fresh)) - {part.name for part in fields(Plan)}
        names = [name for name, kept in vars(Plan).items() if hasattr(kept, "__wrapped__")]
        names += [name for name, kept in vars(Plan).items() if isinstance(kept, (property, cached_property))]
        for name in names:
            mine, theirs = (getattr(one, name) for one in (known, fresh))
            mine, theirs = (mine(), theirs()) if callable(mine) and name != "hooks" else (mine, theirs)
            assert np.array_equal(mine, theirs) if isinstance(mine, np.ndarray) else mine == theirs, name
        check_parts(known, fresh)


def check_parts(made: Plan, fresh: Plan) -> None:
    for oracle in (0, 7):
        for capacity in CAPACITIES:
            found = parts(made, capacity, oracle)
            plain = [part.size(fresh, capacity) for part in PARTS]
            expected = [
                (oracle, n) if part.word == ORACLE else (m, n) for part, (m, n) in zip(PARTS, plain, strict=True)
            ]
            assert [(sized.outer, sized.inner) for sized in found] == expected
            assert [sized.part for sized in found] == list(PARTS)
            words = start(made, first_route(made), True, capacity, oracle)
            assert words.nbytes == block_bytes(made, capacity, oracle)


ORACLE = next(part.word for part in PARTS if part.about == "the oracle's lines")


def test_the_same_query_is_bound_once_and_no_other_is_taken_for_it() -> None:
    query, schemas = wr.Query(streams=STREAMS, on="k", memory=100), dict.fromkeys(NAMES, SCHEMA)
    first = bind(query, schemas)
    assert bind(query, dict(schemas)) is first
    others = [
        bind(query, schemas, False),
        bind(query.with_(memory=101), schemas),
        bind(query.with_(seed=0), schemas),  # equal, and still another: it may have been written in another way
        bind(query, {**schemas, "c": SCHEMA.set(2, pa.field("x", pa.float32()))}),
        bind(query, {**schemas, "c": SCHEMA.with_metadata({"said": "otherwise"})}),
    ]
    assert all(other is not first for other in others)
    assert [other.plan.own_clock for other in others] == [False, True, True, True, True]
    assert [other.schemas["c"].field("x").type for other in others] == [pa.float64()] * 3 + [pa.float32(), pa.float64()]
    assert others[-1].schemas["c"].metadata == {b"said": b"otherwise"}
    schemas["c"] = SCHEMA.remove(1)
    assert first.schemas["c"] == SCHEMA
    with pytest.raises(wr.errors.UnknownColumn):
        bind(query, schemas)


def test_what_is_said_of_compiling_is_said_of_this_join(monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy that is deferred in a join of two streams, as one before was, is not in one of three."""
    mine = Notice()
    for module in (compile_notice, shard):
        monkeypatch.setattr(module, "NOTICE", mine)
    prob, schemas = {"on": "k", "memory": 100, "policy": "prob"}, dict.fromkeys(NAMES, SCHEMA)
    pair = bind(wr.Query(streams=STREAMS[:2], **prob), dict.fromkeys(NAMES[:2], SCHEMA)).plan
    assert mine._what == "the beginning of the join of two streams under PROB"
    shard.Shard(pair, True, start(pair, first_route(pair), True, Capacity(begun=0)))
    assert mine._what == "the beginning of the join of two streams under PROB"
    shard.Shard(pair, True, start(pair, first_route(pair), True, Capacity()))
    assert mine._what == "the join of two streams under PROB"
    several = bind(wr.Query(streams=STREAMS, **prob), schemas).plan
    shard.Shard(several, True, start(several, first_route(several), True, Capacity()))
    assert mine._what == "the join of several streams under PROB"
    two = {"streams": STREAMS[:2], "constraints": [wr.Unique(NAMES[0], "k")]}
    bind(wr.Query(on="k", **two), dict.fromkeys(NAMES[:2], SCHEMA))
    assert (mine._what, mine._seconds) == ("the exact join of two streams with constraints", 15)
    ranged = [wr.Equal(f"{NAMES[0]}.k", f"{NAMES[1]}.k"), wr.Compare(f"{NAMES[0]}.x", "<", f"{NAMES[1]}.x")]
    bind(wr.Query(streams=STREAMS[:2], on=ranged), dict.fromkeys(NAMES[:2], SCHEMA))
    assert (mine._what, mine._seconds) == ("the exact join of two streams by more than a key", 10)
