"""Can catch: a sample that has too many rows of a popular key, forks that count otherwise than their shard, a sample
that depends on where batches end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import windrow as wr
from windrow.kernels import layout as at
from windrow.kernels import trials
from windrow.state.auto import samples
from windrow.state.auto.samples import NOBODY, Sample, drawn
from windrow.state.parts import view
from windrow.state.shard import Shard

MEMORY, WINDOW, WORDS = 3_000, 2_500, at.R_CODES + 1
POPULAR = np.array([3, 7, 20], np.int64)


def records(codes: np.ndarray, live: np.ndarray) -> np.ndarray:
    found = np.zeros((len(codes), WORDS), np.int64)
    found[:, at.R_TICK] = np.arange(len(codes))
    found[:, at.R_CODES], found[:, at.R_LIVE] = codes, live
    return found.ravel()


def keys(kind: str, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Three popular keys, or thousands of keys of which three have most rows."""
    few = rng.choice(POPULAR, rows, p=[0.6, 0.3, 0.1])
    return few if kind == "few" else np.where(rng.random(rows) < 0.6, few, rng.integers(100, 3_000, rows))


def full(kind: str, **more: Any) -> tuple[wr.Engine, Shard]:
    """An engine that has shed for a while, and its shard, which tries nothing by itself."""
    engine = wr.Engine(
        wr.Query(
            streams=[wr.Stream(name, "t", WINDOW) for name in "ab"], on="k",
            **{"memory": MEMORY, "policy": "auto", "patience": 0, **more},
        ),
        count_only=True,
        schemas={name: pa.schema([("t", pa.int64()), ("k", pa.int64())]) for name in "ab"},
    )  # fmt: skip
    shard = engine.bound()[1]
    assert shard.trials is not None
    shard.trials.next = at.HIGH
    push(engine, kind, 0)
    return engine, shard


def push(engine: wr.Engine, kind: str, turn: int, rows: int = 6_000) -> None:
    rng = np.random.default_rng(turn)
    times = np.arange(rows) + turn * rows
    engine.push({name: pa.table({"t": times, "k": keys(kind, rows, rng)}) for name in "ab"})


@pytest.mark.parametrize("popular", [NOBODY, POPULAR], ids=["all", "listed"])
@pytest.mark.parametrize("keep", [False, True])
def test_batches_do_not_matter_to_what_is_thinned(popular: np.ndarray, keep: bool) -> None:
    rng = np.random.default_rng(1)
    codes, live = keys("many", 2_000, rng), (rng.random(2_000) < 0.9).astype(np.int64)
    whole = trials.thinned(records(codes, live), WORDS, 0.3, popular, 5, 40, keep)
    parts, first = [], 40
    for start in range(0, 2_000, 70):
        piece = records(codes, live).reshape(-1, WORDS)[start : start + 70].ravel()
        parts.append(trials.thinned(piece, WORDS, 0.3, popular, 5, first, keep))
        first += int(live[start : start + 70].sum())
    assert whole.tolist() == np.concatenate(parts).tolist()


@pytest.mark.parametrize("popular", [NOBODY, POPULAR], ids=["all", "listed"])
def test_rows_of_popular_keys_are_thinned_and_other_keys_sampled(popular: np.ndarray) -> None:
    rng = np.random.default_rng(2)
    codes, live = keys("many", 20_000, rng), np.ones(20_000, np.int64)
    live[::7] = 0
    found = trials.thinned(records(codes, live), WORDS, 0.3, popular, 5, 0, True).reshape(-1, WORDS)
    assert len(found) == len(codes) and (found[live == 0, at.R_LIVE] == 0).all()
    thin = np.isin(codes, popular) if len(popular) else np.ones(len(codes), bool)
    mine = found[thin & (live == 1), at.R_LIVE]
    assert set(mine.tolist()) == {1, at.PROBE_ONLY} and abs(float((mine == 1).mean()) - 0.3) < 0.02
    if len(popular):
        kept, lost = (set(codes[~thin & (found[:, at.R_LIVE] == k) & (live == 1)].tolist()) for k in (1, 0))
        assert not kept & lost and 0.25 < len(kept) / len(kept | lost) < 0.35


@pytest.mark.parametrize("kind, few", [("few", samples.FEW_KEYS), ("many", samples.FEW_KEYS), ("many", 100)])
def test_a_fork_has_its_share_of_rows_memory_and_matches(kind: str, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample of keys would have most of the rows here, or hardly any."""
    monkeypatch.setattr(samples, "FEW_KEYS", few)
    engine, shard = full(kind)
    sample = drawn(shard, 600, 1)
    assert sample is not None and (len(sample.popular) > 0) == (few == 100)
    fork = shard.fork(sample)
    share = sample.share
    assert share == pytest.approx(0.2) and 1.0 >= sample.seen >= share
    rows = int(fork.stream_counter(at.Stream.rows).sum())
    assert abs(rows - 600) < 100 and abs(fork.plan.cap_rows[0] - 600) < 100
    before = shard.matched, fork.matched
    trials = shard.trials
    assert trials is not None
    trials.sample, trials.forks = sample, [fork, *[None] * 6]
    for turn in range(1, 4):
        push(engine, kind, turn)
    found = (fork.matched - before[1]) / (shard.matched - before[0])
    assert abs(found - share) < 0.1 * share


@pytest.mark.parametrize("few", [samples.FEW_KEYS, 100])
def test_forks_know_the_counts_of_their_keys(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "FEW_KEYS", few)
    _, shard = full("many")
    sample = drawn(shard, 600, 1)
    assert sample is not None
    mine, theirs = (counts(one) for one in (shard, shard.fork(sample)))
    assert all(mine[code] == line for code, line in theirs.items())
    assert set(sample.popular.tolist()) <= set(theirs)
    assert len(theirs) == len(mine) if few > 100 else 0.1 < len(theirs) / len(mine) < 0.4


def counts(shard: Shard) -> dict[int, list[int]]:
    """By code, how often a key has come on each stream: of all arrivals, and of recent ones."""
    plan = shard.plan
    top = int(view(shard.words, at.Head.dirs_at, 1, at.DIR_SIZE)[0, at.Directory.top])
    lines = view(shard.words, at.Head.keys_at, shard.capacity.keys, plan.key_words())[:top]
    words = [at.chain_word(0, at.FREQ), at.chain_word(1, at.FREQ), *range(1 + 2 * at.PER_STREAM, plan.key_words())]
    return {
        int(line[at.Key.code]): line[words].tolist()
        for line in lines
        if line[at.chain_word(0, at.Chain.count)] != at.NONE
    }


@pytest.mark.parametrize("memory", ["300 kB", "6 MB", "8 MB"])
@pytest.mark.parametrize("kind", ["few", "many"])
def test_forks_have_the_bytes_that_were_set_aside(kind: str, memory: str) -> None:
    engine, shard = full(kind, memory=memory)
    while not shard.stream_counter(at.SHED).any() and engine.metrics.arrived < 200_000:
        push(engine, kind, engine.metrics.arrived // 12_000)
    sample = drawn(shard, 4_096, 1)
    if memory == "300 kB":
        assert sample is None
        return
    assert sample is not None and not sample.is_whole
    fork = shard.fork(sample)
    assert fork.words.nbytes + sample.popular.nbytes <= shard.plan.fork_bytes
    assert int(fork.stream_counter(at.Stream.rows).sum()) >= 40


@pytest.mark.parametrize(
    "sample",
    [
        Sample(0.0), Sample(1.5, 1.5), Sample(0.5, 0.4), Sample(np.nan), Sample(1.0, 1.0, POPULAR),
        Sample(0.5, 0.7, POPULAR[::-1]), Sample(0.5, 0.7, np.arange(samples.MOST_POPULAR + 1)),
    ],
)  # fmt: skip
def test_samples_that_cannot_be_are_refused(sample: Sample) -> None:
    plan = full("few")[1].plan
    assert not sample.is_possible(plan)
    assert Sample(0.5, 0.7, POPULAR).is_possible(plan) and Sample(0.5).is_possible(plan)
