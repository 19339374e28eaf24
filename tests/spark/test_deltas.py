"""A state of deltas is the state: the same output, archive and counters as with whole snapshots, whatever happens.

Catches: a log that does not give the state again (under any policy, above the budget, with late rows and recall), an
engine that was kept aside and is not the one of the checkpoint, a retried push that counts twice, replaying under other
settings than the log was written under, rows of a silent shard that stay, a checkpoint that writes more than it must.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.driving import Driven, archived, bags, batches, exact, missed, query
from tests.streams import configurations, label

import windrow as wr
from windrow.errors import SnapshotError
from windrow.spark import deltas
from windrow.spark.archive import Run
from windrow.spark.pack import WITNESS
from windrow.spark.warm import Cache, Key

HONEST = [p for p in configurations() if not isinstance(getattr(p, "statistics", None), wr.statistics.Oracle)]
HONEST.sort(key=lambda policy: policy.name != "auto")
PUSHES = 10


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces and logs of a size at which a few rows begin new ones."""
    monkeypatch.setattr(deltas, "PIECE_BYTES", 1_000)
    monkeypatch.setattr(deltas, "LEAST_LOG", 6_000)


class Careless(Cache):
    """A cache that throws some of what it holds away, by chance."""

    def __init__(self, place: Path, loss: float) -> None:
        place.mkdir()
        super().__init__(place)
        self.loss, self.chance = loss, Random(1)

    def claim(self, key: Key) -> Path | None:
        if self.chance.random() < self.loss:
            self.forget(key.query)
        return super().claim(key)


def counters(driven: Driven) -> dict[int, dict[str, Any]]:
    """All that a query says of itself but how its engines came to be there."""
    return {shard: {k: v for k, v in mine.items() if k != "warm"} for shard, mine in driven.metrics.items()}


def calm(folder: Path, rows: list[Any], join: wr.Query) -> Driven:
    """The run with whole snapshots, undisturbed."""
    driven = Driven(folder).start(join)
    for batch in rows:
        driven.push(batch)
    return driven


@pytest.mark.parametrize("policy", HONEST, ids=label)
def test_every_policy_gives_the_same_whatever_is_kept_killed_or_started_again(policy: Any, tmp_path: Path) -> None:
    rows, join = batches(11, PUSHES), query(policy=policy, memory="12 kB" if policy.name == "auto" else 8)
    expected = calm(tmp_path / "calm", rows, join)
    caches = [Careless(tmp_path / "some", 0.5)]
    if policy.name == "auto":  # the default, also with no cache and with one that loses nothing
        caches += [None, Careless(tmp_path / "all", 0.0)]
    for k, cache in enumerate(caches):
        driven, chance = Driven(tmp_path / str(k), deltas=True, cache=cache).start(join), Random(k)
        snapshots, logged = 0, 0
        for batch in rows:
            if chance.random() < 0.3:
                driven.push(batch, commit=False)  # a task that fails, or a driver that is killed
            if chance.random() < 0.3:
                driven.start(join)
            driven.push(batch)
            logs = [len(pages.log) for pages in driven.states.values()]
            snapshots, logged = snapshots + logs.count(0), logged + sum(log > 0 for log in logs)
        assert snapshots and logged, "both kinds of state were gone on from"
        assert driven.output == expected.output
        assert bags(tmp_path / str(k)) == bags(tmp_path / "calm")
        assert counters(driven) == counters(expected)
        heads = [driven.head(shard) for shard in driven.states]
        assert any(head["attached"] for head in heads) == (cache is not None) and any(head["rebuilt"] for head in heads)
    lost = missed(archived(tmp_path / "calm"), rows)
    assert expected.output + lost == exact(rows)


def test_joins_of_one_query_keep_their_engines_apart(tmp_path: Path) -> None:
    """Catches a join that throws away what another one of its query has parked: their shards have equal numbers."""
    rows, cache = batches(13, PUSHES), Cache(tmp_path)
    chain = [Driven(None, run=Run("chain"), deltas=True, cache=cache).start(query(seed=seed)) for seed in (1, 2)]
    for batch in rows:
        for driven in chain:
            driven.push(batch)
    heads = [driven.head(shard) for driven in chain for shard in driven.states]
    assert len(heads) == 4 and [head["rebuilt"] for head in heads] == [0] * 4
    assert all(head["attached"] == head["pushes"] - 1 for head in heads)


def test_settings_that_change_in_the_middle_of_a_log(tmp_path: Path) -> None:
    rows, cache = batches(12, PUSHES), Cache(tmp_path)
    turns = [query(), query(memory=3, policy="rand"), query(policy="prob", memory=20, lateness=5)]
    for keeping in (None, cache):
        for k, whole in enumerate((True, False)):
            driven = Driven(tmp_path / f"{k}{keeping is None}", deltas=not whole, cache=keeping)
            for n, batch in enumerate(rows):
                if n % 4 == 0:
                    driven.start(turns[n // 4])
                driven.push(batch)
            if whole:
                expected = driven
        assert driven.output == expected.output and counters(driven) == counters(expected)
        assert bags(driven.archive) == bags(expected.archive)
    assert sum(driven.head(shard)["attached"] for shard in driven.states) > 0


def test_an_engine_of_another_state_is_not_taken(tmp_path: Path) -> None:
    """A checkpoint that is set back, and then gets other rows than before."""
    rows, other = batches(13, PUSHES), batches(14, PUSHES)
    driven = Driven(None, deltas=True, cache=Cache(tmp_path)).start(query())
    for batch in rows[:6]:
        driven.push(batch)
    back = replace(driven, states=dict(driven.states), output=Counter(driven.output))
    before = [driven.head(shard)["rebuilt"] for shard in driven.states]
    driven.push(rows[6])
    for batch in other[6:9]:
        back.push(batch)
    assert [back.head(shard)["rebuilt"] for shard in back.states] == [n + 1 for n in before], "and then warm again"
    alone = calm(None, [*rows[:6], *other[6:9]], query())
    assert back.output == alone.output and counters(back) == counters(alone)


def test_an_engine_of_other_settings_in_between_is_not_taken(tmp_path: Path) -> None:
    """A checkpoint that is set back, and then gets the same rows under other settings for a while."""
    rows, small = batches(13, PUSHES), query(memory=3)
    driven = Driven(None, deltas=True, cache=Cache(tmp_path)).start(query())
    for batch in rows[:4]:
        driven.push(batch)
    back = replace(driven, states=dict(driven.states), output=Counter(driven.output))
    for batch in rows[4:7]:
        driven.push(batch)
    before = {shard: back.head(shard)["version"] for shard in back.states}
    for batch, join in zip(rows[4:7], (small, small, query()), strict=True):
        back.start(join).push(batch)
    assert before and all(back.head(k)["version"] != driven.head(k)["version"] for k in before)


def test_a_log_that_gives_another_state_is_refused() -> None:
    driven = Driven(None, deltas=True).start(query(memory=None))
    for batch in batches(15, 6):
        driven.push(batch)
    pages = next(pages for pages in driven.states.values() if len(pages.log) > 1)
    head = json.loads(pages.text)
    (first, *_, last), log = sorted(pages.log), pages.log
    log[last] = log[first]
    with pytest.raises(SnapshotError, match=r"replaying \d+ micro-batches of the checkpoint gave arrived .* and not"):
        driven.push(batches(15, 7)[-1])
    assert head["pushes"] == last + 1


@pytest.mark.parametrize("most", [20, 1_000])
def test_what_is_written_is_what_was_brought(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot is written when the log would pass the one before: all but the last are no more than all pushes."""
    monkeypatch.setattr(deltas, "LEAST_LOG", 0)
    monkeypatch.setattr(deltas, "MOST_ENTRIES", most)
    brought: list[int] = []
    plain = deltas.Push.data
    monkeypatch.setattr(deltas.Push, "data", lambda push: (brought.append(plain(push).size), plain(push))[1])
    driven = Driven(None, shards=1, deltas=True).start(query(memory=None, window={"left": 200, "right": 200}))
    snapshots, longest = [], 0
    for batch in batches(16, 60):
        driven.push(batch)
        pages = driven.states[0]
        head = driven.head(0)
        assert head["snapshot_bytes"] == sum(map(len, pages.pieces.values())) and head["pieces"] == len(pages.pieces)
        assert head["log_bytes"] == sum(len(data) for _, data in pages.log.values()) <= head["snapshot_bytes"]
        assert sorted(pages.log) == list(range(head["first"], head["pushes"])) and len(pages.log) <= most + 1
        snapshots += [] if pages.log else [head["snapshot_bytes"]]
        longest = max(longest, len(pages.log))
    assert longest > 1 and len(snapshots) > 2
    if most > len(brought) == 60:
        assert sum(snapshots[:-1]) <= sum(brought)


TIMES = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("t", pa.timestamp("us", tz="UTC"))])
SECOND = 1_000_000


def second_batch(rows: list[tuple[int, int]]) -> dict[str, pa.Table]:
    """Rows of both streams: key and second."""
    found = [{"id": n, "k": k, "t": second * SECOND} for n, (k, second) in enumerate(rows)]
    return dict.fromkeys(("left", "right"), pa.Table.from_pylist(found, schema=TIMES))


def test_a_silent_shard_expires() -> None:
    join = query(0, {"left": "8 seconds", "right": "8 seconds"}, memory=None)
    driven = Driven(None, shards=4, schemas=(TIMES, TIMES), deltas=True).start(join)
    driven.push(second_batch([(k, k % 3) for k in range(40)]))
    assert all(mine["resident_rows"] for mine in driven.metrics.values()) and len(driven.metrics) == 4
    rows = [sum(mine["resident_rows"] for mine in driven.metrics.values())]
    for second in range(1, 16):
        driven.mark = 1_000 * second
        driven.push(second_batch([(0, second)]))
        rows.append(sum(mine["resident_rows"] for mine in driven.metrics.values()))
    silent = [shard for shard, mine in driven.metrics.items() if mine["streams"]["left"]["arrived"] < 16]
    assert len(silent) == 3 and all(driven.metrics[shard]["resident_rows"] == 0 for shard in silent)
    assert all(not driven.states[shard].timers for shard in silent), "an empty shard is left alone"
    assert all(len(pages.timers) <= 1 for pages in driven.states.values())
    called = [driven.head(shard)["pushes"] for shard in silent if shard != WITNESS]  # which is called every time
    assert len(called) >= 2 and max(called) == 1 + len(range(1, 12, 2)), (
        "every quarter of the window, until all is gone"
    )
    assert rows[0] > rows[-1] > 0
