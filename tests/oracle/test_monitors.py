"""Constraints that are found by watching: nothing is invented, what is watched is not touched, what is found is true.

Catches: a distance that is measured too small; a promise that is used before it could be seen to break; a status that
outlives the promises it rests on; monitors that a snapshot forgets.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kmon_cases import Case, cases
from tests.kmon_engine import engine_of
from tests.oracle.test_release_engine import exact, played

import windrow as wr
from windrow.analysis.adherence import adherence
from windrow.lab.constrained import Edge, fan_streams, star_streams
from windrow.lab.traffic import unique_pair


def asked(case: Case, monitored: wr.Monitored) -> wr.Engine:
    """An engine of a case's query with monitors instead of declared constraints."""
    engine = engine_of(case.query, ())
    return wr.Engine(engine.query.with_(constraints=monitored))


@given(cases(), st.integers(0, 2**32), st.integers(1, 8), st.sampled_from([0.0, 0.3, 1.0]))
def test_what_is_found_invents_nothing(case: Case, seed: int, reaction: int, sample: float) -> None:
    """With monitors as hasty as can be, matches are some of the exact join's, and every row is accounted for."""
    found, _ = played(case, Random(seed), asked(case, wr.Monitored(reaction=reaction, sample=sample)))
    assert found <= exact(case)


@given(cases(), st.integers(0, 2**32), st.integers(1, 8))
def test_who_only_watches_releases_nothing(case: Case, seed: int, reaction: int) -> None:
    found, engine = played(case, Random(seed), asked(case, wr.Monitored(release=False, reaction=reaction)))
    assert found == exact(case)
    assert engine.metrics.released == 0 and not any(c.used for c in engine.metrics.constraints.values())


STREAMS = {
    "star": (star_streams(30_000, [Edge(distance=100), Edge(distance=100)], seed=1), ["S1.A = S2.A", "S1.B = S3.B"]),
    "clustered": (fan_streams(30_000, [Edge(clustered=100)] * 2, seed=1), ["S1.A = S3.A", "S2.A = S3.A"]),
    "scrambled": (fan_streams(30_000, [Edge(scrambled=100)] * 2, seed=1), ["S1.A = S3.A", "S2.A = S3.A"]),
}


def query_of(name: str, constraints: object) -> wr.Query:
    tables, on = STREAMS[name]
    streams = [wr.Stream(stream, "t", wr.Window.rows(10_000)) for stream in tables]
    return wr.Query(streams=streams, on=on, order="arrival", constraints=constraints)


def pushed(query: wr.Query, tables: dict[str, pa.Table], pieces: int = 30) -> tuple[int, wr.Engine]:
    """The number of matches of tables in pieces of time, and the engine."""
    engine, found = wr.Engine(query), 0
    times = {name: table["t"].to_numpy() for name, table in tables.items()}
    cuts = np.quantile(np.concatenate(list(times.values())), np.linspace(0, 1, pieces + 1))
    cuts[0], cuts[-1] = -1, np.inf
    for low, high in pairwise(cuts.tolist()):
        ends = {n: np.searchsorted(t, [low, high], side="right") for n, t in times.items()}
        found += engine.push({n: tables[n].slice(a, b - a) for n, (a, b) in ends.items()}).num_rows
    return found, engine


@pytest.mark.parametrize("name", STREAMS)
def test_streams_that_keep_constraints_are_joined_in_less_memory_without_loss(name: str) -> None:
    tables, _ = STREAMS[name]
    plain, before = pushed(query_of(name, None), tables)
    found, after = pushed(query_of(name, "auto"), tables)
    assert found == plain
    assert after.metrics.resident_rows < before.metrics.resident_rows / 4


@pytest.mark.parametrize("name", STREAMS)
def test_what_is_seen_is_what_there_is(name: str) -> None:
    """Watching whole windows measures every distance up to the true k, and where streams keep order nothing above."""
    tables, _ = STREAMS[name]
    query = query_of(name, wr.Monitored(release=False, reaction=10**9))
    _, engine = pushed(query, tables)
    truth = {str(found).partition(" within ")[0]: found for found in adherence(query, tables)}
    for text, seen in engine.metrics.constraints.items():
        if seen.k is None:
            assert (seen.seen == 0) == (not str(truth.get(text, "not")).startswith("not")), text
        elif text in truth and seen.measured:
            k = truth[text].rows
            assert seen.seen >= k if "ordered" in text else seen.seen == k, (text, seen, k)


@pytest.mark.parametrize("k", [0, 100, 3_000])
def test_order_is_known_far_back(k: int) -> None:
    """Of an ordered column 128 steps are kept: rows are released by any k, and who keeps it does not break it."""
    tables = fan_streams(60_000, [Edge(scrambled=k)] * 2, seed=1)
    on = ["S1.A = S3.A", "S2.A = S3.A"]
    streams = [wr.Stream(stream, "t", wr.Window.rows(30_000)) for stream in tables]
    query = wr.Query(streams=streams, on=on, order="arrival")
    truth = {
        str(a.constraint.stream): a.rows for a in adherence(query, tables, [wr.Ordered(s, "A", 0) for s in tables])
    }
    plain, before = pushed(query, tables)
    unique = wr.Unique("S3", "A")
    found, after = pushed(query.with_(constraints=[unique, *(wr.Ordered(s, "A", k) for s in ("S1", "S2"))]), tables)
    assert found == plain
    assert after.metrics.resident_rows < before.metrics.resident_rows / 2
    for stream in ("S1", "S2"):
        known = after.metrics.constraints[f"{stream} is ordered on A"]
        assert known.violations == 0 and truth[stream] <= known.seen <= truth[stream] + k // 32
    if k:
        half = [unique, *(wr.Ordered(s, "A", k // 2) for s in ("S1", "S2"))]
        assert pushed(query.with_(constraints=half), tables)[1].metrics.constraints["S1 is ordered on A"].violations > 0


def test_a_pair_of_unique_streams_is_found() -> None:
    left, right = unique_pair(20_000, seed=1)
    plain = wr.join(left, right, on="id", time="ts", within="1 hour")
    found = wr.join(left, right, on="id", time="ts", within="1 hour", constraints="auto")
    assert found.table.num_rows == plain.table.num_rows
    assert found.metrics.peak_bytes < plain.metrics.peak_bytes / 3
    assert found.metrics.constraints["left is unique on id"].used


def test_a_promise_that_breaks_rests_and_says_so() -> None:
    """Keys are unique for long, then come twice: the monitor stops at once to rely on it."""
    keys = [*range(3000), *(k for k in range(3000, 3500) for _ in range(2))]
    left = pa.table({"t": np.arange(4000), "k": keys})
    right = pa.table({"t": np.arange(4000), "k": [*range(3000), *range(3000, 4000)]})
    query = wr.Query(streams=[wr.Stream("a", "t", 1000), wr.Stream("b", "t", 1000)], on="k",
                     constraints=wr.Monitored(reaction=200, sample=1.0))  # fmt: skip
    engine = wr.Engine(query)
    for start in range(0, 4000, 100):
        engine.push({"a": left.slice(start, 100), "b": right.slice(start, 100)})
    unique = engine.metrics.constraints["a is unique on k"]
    assert unique.violations > 0 and not unique.used


@pytest.mark.parametrize("window", [wr.Window.rows(500), wr.Window.time(500)], ids=["rows", "time"])
@pytest.mark.parametrize("seed", range(3))
def test_distances_beyond_the_window_are_not_used(window: wr.Window, seed: int) -> None:
    """Keys that rest for longer than a window and come back: to rely on their rest would free next to nothing, and lose
    what comes back."""
    rng, n = np.random.default_rng(seed), 60_000
    mine = 40 * (np.arange(n) // 5_000) + rng.integers(0, 60, n)  # a set of keys that moves on
    theirs = np.where(rng.random(n) < 0.02, mine, 40 * (np.arange(n) // 3_000 % 7) + rng.integers(0, 60, n))
    tables = {"a": pa.table({"t": np.arange(n), "k": mine}), "b": pa.table({"t": np.arange(n), "k": theirs})}
    query = wr.Query(streams=[wr.Stream(stream, "t", window) for stream in tables], on="k", order="arrival")
    plain, _ = pushed(query, tables)
    found, engine = pushed(query.with_(constraints="auto"), tables, pieces=120)
    assert found >= 0.999 * plain
    assert all(seen.k <= 500 for seen in engine.metrics.constraints.values() if seen.used and seen.k is not None)
