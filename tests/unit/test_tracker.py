"""Can catch: a recall that is not matches over matches of the exact join, and intervals that promise too much."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from tests.streams import POLICY_NAMES

import windrow as wr
from windrow.quality.tracker import Tracker
from windrow.spec import Band, Query, Stream, Window
from windrow.spec.constraints import SPARED_SHARE

SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.int64())])


def streams_of(seed, rows, keys, names="ab", skew=0.7):
    """Streams of one row per instant with skewed keys; which key is frequent depends on the seed."""
    random = np.random.default_rng(seed)
    weights = 1.0 / np.arange(1, keys + 1) ** skew
    labels = random.permutation(keys)
    chosen = {name: random.choice(labels, rows, p=weights / weights.sum()) for name in names}
    return {name: pa.table({"t": np.arange(rows), "k": keys}, schema=SCHEMA) for name, keys in chosen.items()}


def query_of(names="ab", window=300, on="k", **options):
    return Query(streams=[Stream(n, "t", Window.time(window)) for n in names], on=on, **options)


def pushed(engine, tables, step):
    rows = next(iter(tables.values())).num_rows
    for start in range(0, rows, step):
        engine.push({name: table.slice(start, step) for name, table in tables.items()})
    return engine.metrics


def limit(engine, limit_bytes):
    """Let the second join of an engine that has not begun have so many bytes."""
    engine._tracker = Tracker(engine.bound()[0].plan, limit_bytes)


def exact_count(query, tables):
    engine = wr.Engine(query.with_(memory=None), dict.fromkeys(tables, SCHEMA), count_only=True)
    return pushed(engine, tables, 10_000).matched


@pytest.mark.parametrize("policy", POLICY_NAMES)
@pytest.mark.parametrize("names", ["ab", "abc"])
def test_recall_is_exact_while_every_row_is_stored(policy, names):
    tables = streams_of(1, 1200, 150, names)
    query = query_of(names, window=200, memory=90, policy=policy)
    metrics = pushed(wr.Engine(query, dict.fromkeys(names, SCHEMA)), tables, 170)
    exact = exact_count(query, tables)
    assert 0 < metrics.matched < exact
    assert metrics.exact_matched == exact
    assert metrics.recall == pytest.approx(metrics.matched / exact, abs=1e-12)
    assert metrics.recall_interval == (metrics.recall, metrics.recall)


def test_recall_of_a_join_without_a_common_key_is_exact():
    tables = streams_of(2, 600, 300)
    query = query_of(window=60, on=Band("a.k", "b.k", 2), memory=40)
    metrics = pushed(wr.Engine(query, dict.fromkeys("ab", SCHEMA)), tables, 100)
    exact = exact_count(query, tables)
    assert metrics.recall == pytest.approx(metrics.matched / exact, abs=1e-12)
    assert metrics.exact_matched == exact > metrics.matched


def test_nothing_shed_is_recall_one():
    tables = streams_of(3, 400, 50)
    for memory in (None, 5_000):
        metrics = pushed(wr.Engine(query_of(memory=memory), dict.fromkeys("ab", SCHEMA)), tables, 100)
        assert metrics.recall == 1.0 and metrics.recall_interval == (1.0, 1.0)
        assert metrics.exact_matched == metrics.matched


@pytest.mark.parametrize("policy", ["auto", "prob", "rand"])
@pytest.mark.parametrize("skew", [0.0, 0.7])
def test_the_true_recall_lies_in_the_interval_of_a_sample(policy, skew):
    """95 % is promised: of 60 runs, about 57; fewer than 51 is no chance."""
    inside, shares, widths, limit_bytes = 0, [], [], 24_000
    for seed in range(60):
        tables = streams_of(seed, 3000, 1000, skew=skew)
        query = query_of(memory=300, policy=policy, window=600, seed=seed)  # which rows are sampled follows from it
        engine = wr.Engine(query, dict.fromkeys("ab", SCHEMA), count_only=True)
        limit(engine, limit_bytes)
        metrics = pushed(engine, tables, 500)
        shares.append(engine._tracker.share)
        low, high = metrics.recall_interval
        assert low <= metrics.recall <= high
        widths.append(high - low)
        inside += low <= metrics.matched / exact_count(query, tables) <= high
        assert engine._tracker.shard.allocated_bytes <= limit_bytes
    assert max(shares) <= 0.25  # halved at least twice
    assert inside >= 51, (inside, np.mean(widths))
    assert np.mean(widths) < 0.5  # an interval that says nothing always holds


def test_recall_is_given_up_where_too_few_rows_could_be_sampled():
    tables = streams_of(4, 500, 100)
    query = query_of(window=100, on=Band("a.k", "b.k", 1), memory=20)
    engine = wr.Engine(query, dict.fromkeys("ab", SCHEMA))
    limit(engine, 6_000)
    metrics = pushed(engine, tables, 100)
    assert engine._tracker.given_up
    assert (metrics.recall, metrics.recall_interval, metrics.recent_recall, metrics.exact_matched) == (None,) * 4
    assert metrics.matched > 0


def test_recall_can_be_left_out():
    engine = wr.Engine(query_of(memory=50), dict.fromkeys("ab", SCHEMA), recall=False)
    metrics = pushed(engine, streams_of(5, 500, 100), 500)
    assert metrics.total("shed") > 0 and metrics.recall is None and metrics.exact_matched is None


def test_a_snapshot_keeps_the_estimate():
    tables = streams_of(6, 2000, 600)
    engine = wr.Engine(query_of(memory="80 kB", window=400), dict.fromkeys("ab", SCHEMA))
    pushed(engine, {n: t.slice(0, 1000) for n, t in tables.items()}, 500)
    other = wr.Engine.restore(engine.snapshot())
    for one in (engine, other):
        pushed(one, {n: t.slice(1000) for n, t in tables.items()}, 500)
    assert engine._tracker.share == other._tracker.share < 1.0
    assert engine.metrics == other.metrics


def test_recent_recall_follows_a_change_of_memory():
    tables = streams_of(7, 300_000, 300)
    engine = wr.Engine(query_of(memory=20, window=100), dict.fromkeys("ab", SCHEMA), count_only=True)
    pushed(engine, {n: t.slice(0, 50_000) for n, t in tables.items()}, 10_000)
    poor = engine.metrics
    engine.memory = 10_000
    pushed(engine, {n: t.slice(50_000) for n, t in tables.items()}, 10_000)
    rich = engine.metrics
    assert poor.recent_recall == pytest.approx(poor.recall, abs=0.05)
    assert rich.recent_recall > 0.99 > rich.recall > poor.recall


@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_a_small_sample_tells_recall_within_a_few_points(policy):
    """Popular keys have most of the matches: what is found of them is known, and only what was missed is estimated."""
    for seed in range(3):
        tables = streams_of(20 + seed, 20_000, 5_000, skew=0.9)
        query = query_of(memory="500 kB", policy=policy, window=8_000, seed=seed)
        engine = wr.Engine(query, dict.fromkeys("ab", SCHEMA), count_only=True)
        metrics = pushed(engine, tables, 4_000)
        truth = metrics.matched / exact_count(query, tables)
        low, high = metrics.recall_interval
        assert engine._tracker.share < 0.1 and metrics.shed > 10_000
        assert low < metrics.recall < high and high - low < 0.15
        assert metrics.recall == pytest.approx(truth, abs=0.05)


@pytest.mark.parametrize("departures", [False, True])
@pytest.mark.parametrize("policy", ["auto", "prob", "rand"])
def test_instants_with_more_rows_than_the_sample_holds(policy, departures):
    """Days as times: the sample begins before the instant that it cannot hold, so that what is shed in it is known."""
    for seed in range(3):
        days = pa.array(np.arange(12_000) // 3_000)
        tables = {n: t.set_column(0, "t", days) for n, t in streams_of(40 + seed, 12_000, 2_000, skew=0.9).items()}
        query = query_of(memory="300 kB", policy=policy, window=10, seed=seed)
        engine = wr.Engine(query, dict.fromkeys("ab", SCHEMA), departures=departures)
        for start in range(0, 12_000, 1_500):
            engine.push({name: table.slice(start, 1_500) for name, table in tables.items()})
            if departures:
                engine.departed()
        metrics = engine.metrics
        assert engine._tracker.share < 1.0 and metrics.shed > 10_000
        assert metrics.recall == pytest.approx(metrics.matched / exact_count(query, tables), abs=0.06)


@pytest.mark.parametrize("memory", [None, 100_000])
@pytest.mark.parametrize("broken", [True, False])
@pytest.mark.parametrize("sample", [0.0, SPARED_SHARE, 1.0])
def test_recall_is_no_more_than_an_estimate_once_a_constraint_is_broken(memory, broken, sample):
    """Catches a recall of 1 beside most matches missing. Without a sample nothing is told, of all rows the truth."""
    keys = np.arange(400) // (2 if broken else 1)
    constraints = [wr.Unique("a", "k"), wr.Unique("b", "k")]
    tables = {n: pa.table({"t": np.arange(later, later + 400), "k": keys}) for n, later in (("a", 0), ("b", 5))}
    exact = pushed(wr.Engine(query_of(), count_only=True), tables, 50).matched
    options = {"memory": memory, "policy": "fifo", "on_violation": wr.Lose(sample)}
    metrics = pushed(wr.Engine(query_of(constraints=constraints, **options), count_only=True), tables, 50)
    assert metrics.shed == 0 and (metrics.matched < exact) == broken
    if not broken:
        assert (metrics.recall, metrics.exact_matched) == (1.0, exact)
    elif sample == 0.0:
        assert (metrics.recall, metrics.exact_matched) == (None, None)
    else:
        check_estimate(metrics, exact, sample)
    demoted = wr.Engine(query_of(constraints=constraints, on_violation="demote"), count_only=True)
    metrics = pushed(demoted, tables, 50)
    assert (metrics.matched, metrics.recall) == (exact, 1.0)


@pytest.mark.parametrize("later", [1, 40])
@pytest.mark.parametrize("sample", [0.0, SPARED_SHARE, 1.0])
def test_recall_is_no_more_than_an_estimate_where_no_partner_came_in_time(later, sample):
    """Catches a recall of 1 beside no match at all: partners that come too late find nobody who could count them."""
    tables = {n: pa.table({"t": np.arange(400) + at, "k": np.arange(400)}) for n, at in (("a", 0), ("b", later))}
    within = [wr.Unique("b", "k"), wr.Integrity("a", "b", k=2)]
    exact = pushed(wr.Engine(query_of(), count_only=True), tables, 50).matched
    query = query_of(constraints=within, on_violation=wr.Lose(sample))
    metrics = pushed(wr.Engine(query, count_only=True), tables, 50)
    assert exact and metrics.released
    if later == 1:
        assert (metrics.matched, metrics.recall) == (exact, 1.0)
    elif sample == 0.0:
        assert metrics.matched < exact and metrics.recall is None
    else:
        check_estimate(metrics, exact, sample)


def check_estimate(metrics, exact, sample):
    """The true recall is in the interval, if any is told; of a sample of all rows it is what is told."""
    truth = metrics.matched / exact
    assert truth < 1.0
    if sample == 1.0:
        assert metrics.recall == pytest.approx(truth, abs=1e-12)
    if metrics.recall is not None:
        low, high = metrics.recall_interval
        assert low <= truth <= high and low <= metrics.recall <= high < 1.0
