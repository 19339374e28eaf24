"""The counters of a query that was started again are those of all its shards, also of those that get no more rows.

Catches: shards that are missing from the sums, counters of a micro-batch that was killed, a call that changes a state
or writes one, states of before counters were remembered, equal joins of one query that take each other's calls.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.driving import SCHEMA, Driven, query
from tests.spark.folders import Folders, write_files
from tests.spark.joining import joined, streamed, written

import windrow as wr
from windrow.spark import roll_call
from windrow.spark.labels import labels
from windrow.spark.metrics import NAME, QueryMetrics
from windrow.spark.store import PROVIDER
from windrow.spark.warm import Cache

SHARDS = 5
OPTIONS = {"time": "steps", "within": 40, "lateness": 10, "select": ["left.id"], "shards": SHARDS}


def many(seed: int, pushes: int) -> list[dict[str, pa.Table]]:
    """Micro-batches of rows of many keys, so that every shard has some."""
    chance, found = Random(seed), []
    for push in range(pushes):
        rows = [{"id": 100 * push + n, "k": n, "t": 3 * push + chance.randrange(3)} for n in range(60)]
        sides = {"left": rows[::2] + rows[1:20:2], "right": rows[1::2] + rows[:20:2]}
        found.append({side: pa.Table.from_pylist(mine, schema=SCHEMA) for side, mine in sides.items()})
    return found


def one_row(time: int) -> dict[str, pa.Table]:
    """A micro-batch of one row, which reaches one shard."""
    rows = pa.Table.from_pylist([{"id": 10_000 + time, "k": 1, "t": time}], schema=SCHEMA)
    return {"left": rows, "right": SCHEMA.empty_table()}


def without_warm(told: dict[int, dict[str, Any]]) -> dict[int, dict[str, Any]]:
    return {shard: {k: v for k, v in mine.items() if k != "warm"} for shard, mine in told.items()}


def forgotten(driven: Driven) -> None:
    """Take the counters out of all states, as they were before they were remembered."""
    for shard, state in driven.states.items():
        if driven.deltas:
            head = json.loads(state.text)
            head["identity"] = json.dumps({k: v for k, v in json.loads(head["identity"]).items() if k != "metrics"})
            state.text = json.dumps(head)
        else:
            identity = json.dumps({k: v for k, v in json.loads(state[0]).items() if k != "metrics"})
            driven.states[shard] = (identity, *state[1:])


@pytest.mark.parametrize("old", [False, True], ids=["remembered", "old state"])
@pytest.mark.parametrize("kept", ["whole", "deltas", "warm"])
def test_started_again_all_shards_tell_what_they_last_told(kept: str, old: bool, tmp_path: Path) -> None:
    cache = Cache(tmp_path) if kept == "warm" else None
    driven = Driven(None, shards=SHARDS, deltas=kept != "whole", cache=cache).start(query(memory=40))
    for batch in many(3, 6):
        driven.push(batch)
    before = copy.deepcopy(driven.metrics)
    assert set(before) == set(labels(SHARDS)) and all(mine["arrived"] and mine["shed"] for mine in before.values())
    if old:
        forgotten(driven)
    states = copy.deepcopy(driven.states)
    driven.start(query(memory=40))
    assert not driven.metrics and not driven.called
    driven.push(one_row(19), commit=False)  # killed
    assert not driven.metrics
    driven.push(one_row(19))
    assert driven.called and set(driven.metrics) == set(before)
    arrived = [sum(mine["arrived"] for mine in told.values()) for told in (before, driven.metrics)]
    assert arrived[1] == arrived[0] + 1, "nothing counts twice"
    silent = [shard for shard in before if driven.states[shard] == states[shard]]
    assert len(silent) >= SHARDS - 2, "but the row's shard and the witness none has taken or written anything"
    now, then = without_warm(driven.metrics), without_warm(before)
    assert {shard: now[shard] for shard in silent} == {shard: then[shard] for shard in silent}


@pytest.mark.parametrize("deltas", [False, True])
def test_whenever_it_is_killed_counters_are_those_of_what_was_committed(deltas: bool) -> None:
    rows = [one_row(3 * k) if k % 3 else batch for k, batch in enumerate(many(5, 12))]
    calm = Driven(None, shards=SHARDS, deltas=deltas).start(query(memory=30))
    shaken, chance = Driven(None, shards=SHARDS, deltas=deltas).start(query(memory=30)), Random(5)
    for batch in rows:
        if chance.random() < 0.5:
            shaken.push(batch, commit=False)
            shaken.start(query(memory=30))
        calm.push(batch)
        shaken.push(batch)
        assert shaken.called and shaken.metrics == calm.metrics


def test_the_roll_is_called_once_a_run_and_join_and_every_so_often(monkeypatch: pytest.MonkeyPatch) -> None:
    now = ["a", 7]
    monkeypatch.setattr(roll_call, "_moment", lambda: tuple(now))
    monkeypatch.setattr(roll_call, "_begun", {})
    assert roll_call.is_called("1") and roll_call.is_called("1"), "tried again"
    now[1] = 8
    assert not roll_call.is_called("1") and roll_call.is_called("2"), "a join that had nothing to pack before"
    now[:] = ["b", 8]
    assert roll_call.is_called("1")
    assert sum([roll_call.is_called("1") for now[1] in range(9, 9 + 4 * roll_call.EVERY)]) == 4
    monkeypatch.setattr(roll_call, "_moment", lambda: None)
    assert not roll_call.is_called("1")


def test_a_query_says_whether_all_of_its_joins_have_told() -> None:
    def line(shard: int, **more: Any) -> dict[str, str]:
        told = wr.Engine(query(), {"left": SCHEMA, "right": SCHEMA}).metrics.to_dict()
        return {"shards": json.dumps([{"shard": shard, "metrics": json.dumps(told | more)}])}

    class Running:
        name, id, recentProgress = "q", "q", ()

    found = QueryMetrics(Running())
    assert not found.complete and not found.to_dict()["complete"]
    found.take({f"{NAME}1": line(0), f"{NAME}2": line(0, called=True)}, 4)
    assert not found.complete
    found.take({f"{NAME}1": line(1, called=True), f"{NAME}2": {"shards": "[]"}}, 5)
    assert found.to_dict()["complete"] and all("called" not in mine for mine in found.shards.values())
    assert QueryMetrics().complete, "of a batch frame"


@pytest.mark.parametrize("store", ["whole", "rocksdb"])
def test_on_spark(spark: Any, folders: Folders, tmp_path: Path, rocksdb: None, store: str) -> None:
    """Times are integers, so that there is no watermark, and no timer that would wake a shard."""
    if store == "whole":
        spark.conf.unset(PROVIDER)
    paths = {side: tmp_path / side for side in folders.paths}
    for side, path in paths.items():
        write_files(path, [folders.tables[side].slice(0, 100)])

    def ran() -> dict[str, Any]:
        matches = joined(*(streamed(spark, path, 9) for path in paths.values()), "number", **OPTIONS)
        return wr.spark.metrics(written(matches, tmp_path / "out")).to_dict()

    before = ran()
    assert before["complete"] and len(before["shards"]) >= 3
    assert store == "whole" or not ran()["complete"], "no rows, no micro-batch: nothing is told, and that is said"
    write_files(tmp_path / "more", [folders.tables["left"].slice(101, 1)])
    (tmp_path / "more" / "part-000.parquet").rename(paths["left"] / "part-001.parquet")
    after = ran()
    assert after["complete"] and set(after["shards"]) == set(before["shards"])
    assert after["arrived"] == before["arrived"] + 1 and after["matched"] >= before["matched"]
