"""The analysis of locality.

Catches: stack distances, gaps, ages and match counts that differ from what sets, lists and loops give; keys of any type
coded otherwise than in a join; advice that the trials do not bear out; streams that it cannot be asked of.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import windrow as wr
from windrow.analysis.ages import ages
from windrow.analysis.coded import Coded
from windrow.analysis.figures import hill, spread
from windrow.analysis.pairs import pair_of
from windrow.analysis.popularity import fitted
from windrow.analysis.recency import gaps_of
from windrow.analysis.trials import candidates
from windrow.cli import app
from windrow.kernels.analysis import locality as kernels
from windrow.lab.generators import locality_stream, zipf_pair
from windrow.statistics import Decayed

SEEDS = range(6)


def drawn(seed: int, rows: int = 120, keys: int = 9) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.where(rng.random(rows) < 0.5, rng.integers(0, keys, rows), np.arange(rows) // 15 % keys)


def distances_by_sets(ids: np.ndarray) -> list[int]:
    found = []
    for row, key in enumerate(ids):
        before = [i for i in range(row) if ids[i] == key]
        found.append(len(set(ids[before[-1] + 1 : row])) if before else -1)
    return found


def best_ages_by_loops(left: Coded, right: Coded, window: int) -> dict[int, int]:
    """k_opt of each key of the left stream: every age is tried, and the matches until then are counted."""
    found = {}
    for key in set(left.ids.tolist()):
        waits = []
        for i in np.flatnonzero(left.ids == key):
            leaves = left.clock[i + window] if i + window < left.rows else 10**9
            came = [j for j in range(right.rows) if left.clock[i] < right.clock[j]]
            waits += [n + 1 for n, j in enumerate(came) if right.ids[j] == key and right.clock[j] < leaves]
        rates = {k: sum(wait <= k for wait in waits) / k for k in range(1, right.rows + 1)}
        if waits:
            found[key] = max(rates, key=lambda k: rates[k])
    return found


def streams(seed: int, rows: int = 60, keys: int = 5) -> list[Coded]:
    """Two streams that come in any order."""
    side = np.random.default_rng(seed).random(2 * rows) < 0.4
    ids = drawn(seed, 2 * rows, keys)
    return [Coded(n, ids[side == s], np.flatnonzero(side == s), keys, 0) for n, s in (("left", 0), ("right", 1))]


# --------------------------------------------------------------------------------------------- figures


@pytest.mark.parametrize("seed", SEEDS)
def test_stack_distances_are_those_of_sets(seed: int) -> None:
    ids = drawn(seed)
    assert kernels.stack_distances(ids, 9).tolist() == distances_by_sets(ids)


@pytest.mark.parametrize("capacity", [1, 3, 8])
def test_hit_rates_are_those_of_a_cache(capacity: int) -> None:
    ids = drawn(3, 200, 20)
    cache: list[int] = []
    hits = 0
    for key in ids.tolist():
        hits += key in cache
        cache = [key, *(k for k in cache if k != key)][:capacity]
    stack = wr.analyse(pa.table({"k": ids}), on="k", window=20).streams[0].stack
    assert dict(zip(stack.capacities, stack.hits, strict=True))[capacity] == hits / 200


def test_the_random_order_has_the_same_keys_and_no_locality() -> None:
    bursts = pa.table({"k": np.repeat(np.random.default_rng(0).integers(0, 50, 400), 8)})
    one, other = (wr.analyse(bursts, on="k", window=50, seed=seed).streams[0] for seed in (1, 2))
    assert one.stack.found == other.stack.found
    assert one.stack.permuted != other.stack.permuted
    assert one.stack.found.median == 0
    assert 20 < one.stack.permuted.median < 40  # of 50 keys of about one frequency
    assert one.stack.hits[-1] == one.stack.hits_permuted[-1]  # all but the first rows of keys


@pytest.mark.parametrize("seed", SEEDS)
def test_gaps_are_those_of_lists(seed: int) -> None:
    ids = drawn(seed)
    expected = [(int(k), b - a) for k in range(9) for a, b in pairwise(np.flatnonzero(ids == k).tolist())]
    keys, gaps = gaps_of(ids)
    assert list(zip(keys.tolist(), gaps.tolist(), strict=True)) == expected


def test_gap_classes_hold_every_key_that_comes_again() -> None:
    ids = np.repeat(np.arange(5), [1, 2, 9, 10, 150])
    found = wr.analyse(pa.table({"k": np.random.default_rng(1).permutation(ids)}), on="k", window=20).streams[0].gaps
    assert [(c.least, c.keys, c.gaps.count) for c in found.classes] == [(2, 2, 9), (10, 1, 9), (100, 1, 149)]


def test_tails_are_told_apart() -> None:
    rng = np.random.default_rng(5)
    for alpha in (0.7, 1.5, 3.0):
        assert hill(rng.pareto(alpha, 50_000) + 1) == pytest.approx(alpha, rel=0.05)
    assert hill(np.ones(1000)) is None
    assert hill(np.arange(1, 50)) is None
    heavy, light = (
        wr.analyse(locality_stream(20_000, 50, alpha=alpha, seed=2), on="k", window=20).streams[0].gaps
        for alpha in (0.8, 20.0)
    )
    assert heavy.tail < 1.5 < heavy.tail_permuted
    assert light.tail > light.tail_permuted


def test_slope_and_its_error() -> None:
    counts = 1e6 * np.arange(1, 301) ** -0.7
    slope, error = fitted(counts)
    assert slope == pytest.approx(0.7)
    assert error == pytest.approx(0, abs=1e-9)
    noisy = np.sort(counts * np.exp(np.random.default_rng(0).normal(0, 0.1, 300)))[::-1]
    (line, _), covariance = np.polyfit(np.log(np.arange(1, 301)), np.log(noisy), 1, cov=True)
    assert fitted(noisy) == pytest.approx((-line, covariance[0, 0] ** 0.5))
    assert fitted(np.array([4, 2])) == (pytest.approx(1.0), None)


def test_popularity() -> None:
    popular = wr.analyse(pa.table({"k": [1] * 32 + [2] * 16 + [3] * 16}), on="k", window=5).streams[0].popularity
    assert (popular.keys, popular.top_share, popular.entropy) == (3, 0.5, 1.5)
    assert popular.frequencies.tolist() == [32, 16, 16]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("window", [1, 7, 1000])
def test_best_ages_are_those_of_loops(seed: int, window: int) -> None:
    left, right = streams(seed)
    expected = best_ages_by_loops(left, right, window)
    found = ages(left, right, window)
    assert found.values.tolist() == [expected[key] for key in sorted(expected)]
    assert found.unmatched_keys == len(set(left.ids.tolist())) - len(expected)
    merged = [Coded("one", np.zeros(s.rows, np.int64), s.clock, 1, 0) for s in (left, right)]
    assert found.rows is None or found.rows.count == sum(int((left.ids == key).sum()) for key in expected)
    alone = ages(*merged, window)  # of one key, all rows as one is what its key is
    assert alone.values.tolist() == ([] if alone.pooled is None else [alone.pooled])


def test_best_ages_of_a_stream_with_itself() -> None:
    ids = drawn(4, 80, 5)
    whole = Coded("left", ids, np.arange(80), 5, 0)
    expected = best_ages_by_loops(whole, whole, 10)
    assert ages(whole, whole, 10).values.tolist() == [expected[key] for key in sorted(expected)]


def test_best_ages_of_a_part_of_the_rows_stand_for_all() -> None:
    rows = np.arange(40_000)
    start, pooled = np.array([0, 40_000]), np.zeros(90_000, np.int64)
    others = 2 * rows + 5  # a partner every two steps, the first of them at 5 - 2 * 2 = 1 and so on
    best = kernels.best_ages(start, 2 * rows, 2 * rows + 999, start, others, 10_000, pooled)
    assert best.tolist() == [1]
    assert pooled[:1000:2].sum() == 0
    assert pooled.sum() == pytest.approx(500 * 40_000, rel=0.05)


def test_spread() -> None:
    assert spread(np.arange(101)) == pytest.approx(spread(np.arange(101)[::-1]))
    found = spread(np.arange(101))
    assert (found.count, found.mean, found.p10, found.median, found.p90) == (101, 50, 10, 50, 90)
    assert spread(np.zeros(0)) is None


# ------------------------------------------------------------------------------------- matches and advice


@pytest.mark.parametrize("seed", SEEDS)
def test_matches_are_those_of_loops(seed: int) -> None:
    left, right = streams(seed)
    window = 6

    def inside(early: Coded, i: int, late: Coded, j: int) -> bool:
        newer = ((early.clock > early.clock[i]) & (early.clock < late.clock[j])).sum()
        return early.clock[i] < late.clock[j] and newer < window

    expected = sum(
        inside(left, i, right, j) or inside(right, j, left, i)
        for i in range(left.rows)
        for j in range(right.rows)
        if left.ids[i] == right.ids[j]
    )
    pair = pair_of([left, right], window)
    assert pair.count(pair.tables()).matched == expected


def test_one_stream_is_cut_in_two() -> None:
    ids = drawn(1, 101, 5)
    pair = pair_of([Coded("left", ids, np.arange(101), 5, 0)], 10)
    assert pair.left.ids.tolist() == ids[::2].tolist()
    assert pair.right.clock.tolist() == list(range(1, 101, 2))
    assert pair.arrivals == 20


def moving(seed: int, rows: int = 12_000, keys: int = 400) -> pa.Table:
    """Keys that are ranked anew every 600 rows, in both streams at once."""
    rank = zipf_pair(rows, keys, 1.2, seed=seed)[0]["k"].to_numpy()
    turn = np.random.default_rng(9).integers(0, keys, rows // 600)
    return pa.table({"k": (rank + np.repeat(turn, 600)) % keys})


STREAMS = {
    "popular": zipf_pair(6_000, 200, 1.2, 1.2, "correlated", seed=4),
    "uniform": zipf_pair(30_000, 20, 0, 0, seed=4),
    "moving": (moving(1), moving(1).slice(7)),
}


@pytest.mark.parametrize("kind", STREAMS)
def test_advice_is_what_the_trials_say(kind: str) -> None:
    left, right = STREAMS[kind]
    found = wr.analyse(left, right, on="k", window=200)
    best = max(trial.matched for trial in found.trials.all)
    chosen = next(trial for trial in found.trials.all if trial.policy == found.advice.policy)
    assert chosen.matched >= 0.99 * best
    assert all(t.matched < 0.99 * best for t in found.trials.all[: found.trials.all.index(chosen)])
    assert f"{chosen.recall:.1%}" in found.advice.text
    # the same join by the library, row for row in turn
    tables = {"left": left, "right": right}
    sides = {n: pa.table({"k": t["k"], "t": 2 * np.arange(len(t)) + i}) for i, (n, t) in enumerate(tables.items())}
    again = wr.join(
        sides["left"], sides["right"], on="k", time="t", within=wr.Window.rows(200),
        memory=found.trials.memory, policy=chosen.policy,
    )  # fmt: skip
    assert again.metrics.matched == pytest.approx(chosen.matched, rel=0.002)


def test_streams_of_three_kinds_get_three_advices() -> None:
    found = {kind: wr.analyse(*pair, on="k", window=200) for kind, pair in STREAMS.items()}
    assert found["uniform"].advice.policy == wr.policies.Fifo()
    assert found["uniform"].clustering.j == pytest.approx(1, abs=0.02)
    assert found["popular"].advice.policy.name == "prob"
    assert found["popular"].clustering.j == pytest.approx(1, abs=0.05)
    assert found["moving"].clustering.j > 2
    assert isinstance(found["moving"].advice.policy.statistics, Decayed)
    assert found["moving"].advice.options.startswith("--policy prob --statistics decayed:half_life=")


def test_candidates_for_small_windows_are_not_tried_twice() -> None:
    assert len({str(policy) for policy in candidates(3).values()}) == len(candidates(3))
    assert sum("half-life" in label for label in candidates(3)) == 2  # 3 and 1
    assert sum("half-life" in label for label in candidates(2_000)) == 4


def test_nothing_matches() -> None:
    left, right = pa.table({"k": range(30)}), pa.table({"k": range(100, 130)})
    found = wr.analyse(left, right, on="k", window=10)
    assert found.clustering.j is None
    assert found.advice.policy is None
    assert "nothing matches" in found.advice.text
    assert found.streams[0].stack.found is None
    assert found.streams[0].ages.keys is None
    json.dumps(found.to_dict(), allow_nan=False)


# ---------------------------------------------------------------------------------------------- inputs


@pytest.mark.parametrize(
    "keys",
    [
        ["a", "b", None, "c"] * 20,
        [b"a", b"b", None, b"c"] * 20,
        [1.5, float("nan"), None, -0.0] * 20,
        [decimal.Decimal("1.50"), decimal.Decimal("2"), None, decimal.Decimal("3")] * 20,
        [dt.date(2024, 1, 1), dt.date(2024, 1, 2), None, dt.date(2024, 1, 3)] * 20,
    ],
    ids=["text", "binary", "float", "decimal", "date"],
)
def test_keys_of_any_type_and_rows_without(keys: list[Any]) -> None:
    stream = wr.analyse(pa.table({"k": keys}), on="k", window=5).streams[0]
    assert (stream.rows, stream.left_out, stream.popularity.keys) == (60, 20, 3)
    assert stream.stack.found.median == 2


def test_keys_of_several_columns_and_sides_that_differ() -> None:
    left = pa.table({"a": [1, 1, 2, 2] * 10, "b": ["x", "y"] * 20})
    right = pa.table({"c": pa.array([1, 1, 2, 2] * 10, pa.int8()), "d": pa.array(["x", "y"] * 20).dictionary_encode()})
    on = [wr.Equal("left.a", "right.c"), wr.Equal("left.b", "right.d")]
    found = wr.analyse(left, right, on=on, window=4)
    assert [stream.popularity.keys for stream in found.streams] == [4, 4]
    assert found.clustering.matches > 0
    assert wr.analyse(left, on=["a", "b"]).streams[0].popularity.keys == 4


def test_rows_come_in_order_of_time() -> None:
    table = pa.table({"k": drawn(2, 200), "ts": np.arange(200)})
    mixed = table.take(np.random.default_rng(0).permutation(200))
    one, other = (wr.analyse(t, on="k", time="ts", window=20) for t in (table, mixed))
    assert one.streams[0].stack == other.streams[0].stack
    assert one.clustering == other.clustering
    late = pa.table({"k": drawn(2, 200), "ts": np.arange(200) + 10**6})
    assert wr.analyse(table, late, on="k", time="ts", window=20).streams[0].ages.keys is not None
    assert wr.analyse(late, table, on="k", time="ts", window=20).streams[0].ages.keys is None  # partners came before


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"left": pa.table({"k": [1, 2, 3]})}, "3 rows with a key are too few"),
        ({"left": pa.table({"k": [1, 2, None] * 9})}, r"18 rows with a key \(9 more"),
        ({"left": pa.table({"k": [7] * 50})}, "all 50 rows have the same key"),
        ({"left": pa.table({"x": [7] * 50})}, "no column 'k'"),
        ({"left": pa.table({"k": range(50)}), "right": pa.table({"k": ["a"] * 50})}, "cannot be compared"),
        ({"left": pa.table({"k": range(50)}), "window": 0}, "window must be at least 1"),
        ({"left": pa.table({"k": range(50)}), "on": wr.Band("left.k", "right.k", 1)}, "only equalities"),
        ({"left": pa.table({"k": range(50)}), "time": "ts"}, "no column 'ts'"),
    ],
)
def test_refusals(given: dict[str, Any], message: str) -> None:
    with pytest.raises(wr.errors.WindrowError, match=message):
        wr.analyse(**{"on": "k", **given})


# ---------------------------------------------------------------------------------------- command line


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    left, right = STREAMS["popular"]
    pq.write_table(left.slice(0, 2_000), tmp_path / "left.parquet")
    pq.write_table(right.slice(0, 2_000).append_column("unread", pa.array([b"x"] * 2_000)), tmp_path / "right.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ask(*words: str) -> Any:
    return CliRunner().invoke(app, ["analyse", *words], prog_name="windrow")


def test_the_librarys_figures(files: Path) -> None:
    left, right = (pq.read_table(f"{side}.parquet") for side in ("left", "right"))
    found = wr.analyse(left, right, on="k", time="t", window=100, seed=3)
    both = ("left.parquet", "right.parquet", "--on", "k", "--time", "t", "--window", "100", "--seed", "3")
    assert json.loads(ask(*both, "--json").stdout) == json.loads(json.dumps(found.to_dict()))
    told = ask(*both).stdout
    assert f"J = {found.clustering.j:.2f}" in told
    assert found.advice.text in told
    assert found.advice.options in told


def test_one_file_and_a_picture(files: Path) -> None:
    found = ask("left.parquet", "--on", "k", "--window", "50", "-o", "picture.png")
    assert found.exit_code == 0, found.output
    assert "odd with even rows" in found.stdout
    assert Path("picture.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("left.parquet", "--on", "q"), "no column 'q'"),
        (("left.parquet", "--on", "k", "-o", "picture.doc"), "known endings"),
        (("left.parquet", "--on", "k", "--window", "0"), "at least 1"),
        (("left.parquet", "--on", "k", "--where", "left.t < 5"), "5 rows with a key (1,995 more"),
        (("nowhere.parquet", "--on", "k"), "nowhere.parquet"),
    ],
)
def test_refusals_on_the_command_line(files: Path, words: tuple[str, ...], message: str) -> None:
    found = ask(*words)
    assert found.exit_code == 1
    assert message in found.output
    assert "Traceback" not in found.output


def test_without_matplotlib(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    found = ask("left.parquet", "--on", "k", "-o", "picture.png")
    assert (found.exit_code, "pip install matplotlib" in found.output) == (1, True)


def test_help_has_an_example() -> None:
    assert "Example:  windrow analyse" in ask("--help").stdout
