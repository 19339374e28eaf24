"""Can catch: times or keys of the same rows that are coded more than once on their way, and tables sorted twice."""

from __future__ import annotations

from collections import Counter
from random import Random
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import windrow as wr
from windrow import feed
from windrow.spark.job import Job
from windrow.spark.operator import Operator
from windrow.spark.pack import Packer
from windrow.spec import pair_query
from windrow.state import coding_keys, coding_times, columns

ROWS = {"left": 130, "right": 110}
ALL = sum(ROWS.values())


def table_of(side: str, sort: bool) -> pa.Table:
    random = Random(side)
    ts = [random.randrange(1_000) for _ in range(ROWS[side])]
    columns = {
        "k": pa.array([random.choice(["a", "b", "c", None]) for _ in ts], pa.string()),
        "ts": pa.array(sorted(ts) if sort else ts, pa.timestamp("us", tz="UTC")),
        "n": pa.array(range(len(ts)), pa.int64()),
    }
    return pa.table(columns)


@pytest.fixture
def coded(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many rows' keys and times were coded, by whomever: counted inside the two functions that all coding calls."""
    found: Counter[str] = Counter()
    write_codes, cast = coding_keys._column_codes, columns.cast

    def key(column: Any, *given: Any) -> Any:
        found["keys"] += len(column)
        return write_codes(column, *given)

    def time(column: Any, *given: Any) -> Any:
        found["times"] += len(column)
        return cast(column, *given)

    monkeypatch.setattr(coding_keys, "_column_codes", key)
    monkeypatch.setattr(coding_times, "cols", SimpleNamespace(**{**vars(columns), "cast": time}))
    monkeypatch.setattr(feed.feed, "__defaults__", (17,))  # many slices
    return found


WAYS: list[dict[str, Any]] = [
    {},
    {"memory": 40, "policy": "prob"},
    {"memory": "30%", "policy": "prob"},
    {"memory": "30%", "policy": "prob", "shards": 3},
    {"lateness": "50 us"},
    {"shards": 3},
    {"order": "arrival"},
]


@pytest.mark.parametrize("options", WAYS, ids=str)
@pytest.mark.parametrize("sort", [True, False], ids=["in order", "out of order"])
def test_tables_are_coded_once(options: dict[str, Any], sort: bool, coded: Counter[str]) -> None:
    left, right = (table_of(side, sort) for side in ROWS)
    found = wr.join(left, right, on="k", time="ts", within="100 us", **options)
    assert found.metrics.total("arrived") == ALL
    assert coded == {"keys": ALL, "times": ALL}


@pytest.mark.parametrize("shards", [None, 3])
def test_a_push_is_coded_once(shards: int | None, coded: Counter[str]) -> None:
    engine = wr.Engine(pair_query("k", "ts", "100 us", 40, "prob", shards=shards))
    engine.push({side: table_of(side, True) for side in ROWS})
    assert coded == {"keys": ALL, "times": ALL}


def test_tables_out_of_order_are_sorted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where memory is a share, for which the join is counted first."""
    sorts, in_order = [], feed._in_order
    monkeypatch.setattr(feed, "_in_order", lambda *given: sorts.append(1) or in_order(*given))  # type: ignore[func-returns-value]
    left, right = (table_of(side, False) for side in ROWS)
    wr.join(left, right, on="k", time="ts", within="100 us", memory="30%", policy="prob")
    assert len(sorts) == 2  # one for each table


def test_codes_are_not_used_for_another_query() -> None:
    """The same tables through engines with other keys, filters or order give what tables of their own give."""
    tables = {side: table_of(side, False) for side in ROWS}
    shared = feed.CodedTables(tables)
    for options in [
        {},
        {"where": {"left": [("n", "<", 60)]}},
        {"lateness": "50 us"},
        {"order": "arrival"},
        {"on": "n"},
    ]:
        query = pair_query(**{"on": "k", "time": "ts", "within": "100 us", **options})
        own, again = (
            pa.concat_tables(feed.run(feed.engine_for(query, given), given)) for given in (dict(tables), shared)
        )
        assert own.equals(again), options


class State:
    """Spark's state of a group, as far as the operator asks for it."""

    exists = False

    def update(self, state: Any) -> None:
        self.get = state

    def getCurrentWatermarkMs(self) -> int:
        return 0


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("memory", [None, 40, "30%"])
def test_spark_codes_once_in_each_of_its_stages(streaming: bool, memory: Any, coded: Counter[str]) -> None:
    if streaming and memory == "30%":
        memory = "1 MB"  # a share is for batch frames
    tables = [table_of(side, True) for side in ROWS]
    query = pair_query("k", "ts", "100 us", memory, "prob")
    job = Job(query, tuple(table.schema for table in tables), 2)
    packed = [b for s, table in enumerate(tables) for b in Packer(job, s, streaming)(table.to_batches(50))]
    assert coded == {"keys": ALL}  # to choose the shard
    coded.clear()
    operator = Operator(job)
    if streaming:
        rows = pa.Table.from_batches(packed).to_pandas()
        found = pd.concat(
            [f for shard, mine in rows.groupby("shard") for f in operator.stream((shard,), [mine], State())]
        )
        assert found["matches"].notna().any()
    else:
        assert pa.Table.from_batches(operator.batch(packed))["matches"].is_valid().to_numpy().any()
    assert coded == {"keys": ALL, "times": ALL}
