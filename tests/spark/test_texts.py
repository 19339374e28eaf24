"""A text as one task, without Spark: packed, taken by the operator in any order of blobs, unpacked.

Catches: what a text gives on Spark and not embedded, or the other way round; results that depend on how rows were
packed, or on a retry; state that is not whole; late rows and watermarks that mean something else than embedded.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cql_naive import Naive
from tests.cql_texts import rows_of, text_of
from tests.running import assert_same, examples, multiset
from tests.spark.driving import Kept

import windrow as wr
from windrow.spark.frames import spark_schema
from windrow.spark.metrics import QueryMetrics
from windrow.spark.pack import Packer
from windrow.spark.texts import TextJob, TextOperator
from windrow.spark.unpack import Unpacker
from windrow.spec.durations import parse_duration

SCHEMA = pa.schema({"t": pa.int64(), "k": pa.int64(), "g": pa.int64(), "v": pa.int64()})
MOMENTS = pa.schema({"t": pa.timestamp("us", tz="UTC"), "k": pa.int64(), "v": pa.int64(), "op": pa.int8()})
SECOND = 1_000_000
FAR = 60  # ahead of all rows: whoever brings a row there has brought all others


@dataclass
class Marked(Kept):
    """The state of the task, and Spark's watermark."""

    mark: int = 0

    def getCurrentWatermarkMs(self) -> int:
        return self.mark


@dataclass
class Task:
    """The one task of a text."""

    job: TextJob
    kept: Any = None
    mark: int = 0

    def push(self, batch: dict[str, pa.Table], random: Random) -> tuple[pa.Table, dict[str, Any]]:
        """One micro-batch, which is tried twice: what came out, and the counters."""
        frames = [frame for s, name in enumerate(self.job.names) for frame in self._packed(s, batch[name], random)]
        tries = []
        for _ in range(2):
            state = Marked(self.kept, self.kept is not None, self.mark)
            random.shuffle(frames)
            tries.append((*self._given(frames, state), state.get))
        assert tries[0][2] == tries[1][2] and tries[0][0].equals(tries[1][0])
        self.kept = tries[0][2]
        return tries[0][0], tries[0][1]

    def _packed(self, stream: int, rows: pa.Table, random: Random) -> list[Any]:
        """The blobs of a stream, of some partitions."""
        cuts = sorted([0, rows.num_rows, *(random.randrange(rows.num_rows + 1) for _ in range(random.randrange(3)))])
        found = []
        for source, (start, end) in enumerate(pairwise(cuts)):
            for packed in Packer(self.job, stream, streaming=True)(rows.slice(start, end - start).to_batches()):
                found.append(packed.to_pandas().assign(source=source))
        return found

    def _given(self, frames: list[Any], state: Marked) -> tuple[pa.Table, dict[str, Any]]:
        _, schema = spark_schema(self.job.started().push({}).schema)
        tables, counters = [schema.empty_table()], {}
        for frame in TextOperator(self.job, schema).stream((0,), frames, state):
            blobs = pa.RecordBatch.from_pandas(frame)
            blobs = blobs.set_column(2, "matches", blobs["matches"].cast(pa.binary()))
            tables += [pa.Table.from_batches([rows]) for rows in Unpacker(schema)([blobs])]
            counters = [json.loads(text) for text in frame["metrics"] if text is not None] or counters
        return pa.concat_tables(tables), counters[-1]


def task(query: Any, schema: pa.Schema, sign: Any = None, lateness: Any = 0, **options: Any) -> Task:
    times = ("t",) * len(query.streams)
    late = parse_duration(lateness, "lateness")
    return Task(TextJob(query, (schema,) * len(query.streams), times, sign, late, options))


def held(metrics: dict[str, Any]) -> Any:
    """What a text counts, without bytes: a state that was restored has no room to spare."""
    joins = [(join["matched"], join["resident_rows"], join["expired"]) for join in metrics["joins"]]
    return metrics["streams"], metrics["kept_rows"], joins


@examples(25)
@given(st.integers(0, 2**32), st.integers(0, 2))
def test_any_text_gives_what_it_gives_embedded(seed: int, depth: int) -> None:
    """Batch by batch the rows of the embedded twin, whose state is never restored; together what the text means."""
    random = Random(seed)
    query = wr.cql(text_of(random, depth))
    streams = {name: rows_of(random, random.randrange(0, 9), 0.1) for name in query.streams}
    last = max((row["t"] for rows in streams.values() for row in rows), default=0)
    for rows in streams.values():
        rows.append({"t": last + FAR, "k": None, "g": None, "v": None})
    ours, twin = task(query, SCHEMA), query.start(dict.fromkeys(query.streams, SCHEMA), time="t")
    rest, found = {name: list(rows) for name, rows in streams.items()}, []
    while any(rest.values()):
        taken = {name: random.randrange(0, 6) for name in rest}
        batch = {n: pa.Table.from_pylist(rows[: taken[n]], schema=SCHEMA) for n, rows in rest.items()}
        rest = {name: rows[taken[name] :] for name, rows in rest.items()}
        rows, counters = ours.push(batch, random)
        assert_same(multiset(rows), multiset(twin.push(batch)), f"seed {seed}: {query.text}")
        assert held(counters["text"]) == held(twin.metrics.to_dict()), f"seed {seed}: {query.text}"
        found += rows.to_pylist()
    naive, present = Naive(query.tree, streams), Counter[Any]()
    for tau in range(-1, last + 12):
        here = [list(row.values()) for row in found if row["at"] == tau]
        if query.tree.emit == "relation":
            for _, change, *values in here:
                present[tuple(values)] += change
            assert +present == naive.relation(tau), f"seed {seed}, at {tau}: {query.text}"
        else:
            came = Counter(tuple(values) for _, *values in here)
            assert came == naive.stream(tau), f"seed {seed}, at {tau}: {query.text}"


TEXTS = (
    "Select k, sum(v) as v, count(*) as n From S [Range 3 seconds] Group By k",
    "Select Dstream(S.v, T.v as w) From S [Range 2 seconds], T [Rows 3] Where S.k = T.k",
    "Select max(A.v) as v From (Select Istream(Distinct k, v) From S [Range 1 second]) [Range 4 seconds] as A",
)


@pytest.mark.parametrize("text", TEXTS, ids=["groups", "join", "blocks"])
@examples(10)
@given(st.integers(0, 2**32))
def test_watermarks_late_rows_and_deletions_mean_what_they_mean_embedded(text: str, seed: int) -> None:
    """Rows out of order, some beyond the lateness, some without a time, some deletions; a watermark that moves on."""
    random = Random(seed)
    query, options = wr.cql(text), {"sign": random.choice([None, "op"]), "lateness": random.choice([0, "2 seconds"])}
    ours = task(query, MOMENTS, **options)
    twin = query.start(dict.fromkeys(query.streams, MOMENTS), time="t", **options)
    for push in range(6):
        batch = {name: moments(random, push) for name in query.streams}
        rows, counters = ours.push(batch, random)
        assert_same(multiset(rows), multiset(twin.push(batch, watermark=ours.mark * 1000 or None)), f"seed {seed}")
        for name, own in twin.metrics.streams.items():
            assert counters["streams"][name] == own, f"seed {seed}"
            assert own["arrived"] - own["late"] - own["ignored"] >= own["waiting"]
        ours.mark = max(ours.mark, random.choice([0, 2000 * push - 1500]))
    metrics = QueryMetrics()
    metrics.take({"windrow-": {"shards": json.dumps([{"shard": 0, "metrics": json.dumps(counters)}])}})
    together = metrics.to_dict()
    assert together["arrived"] == sum(own["arrived"] for own in twin.metrics.streams.values()) > 0
    assert held(counters["text"]) == held(twin.metrics.to_dict())
    assert 0 < together["resident_bytes"] <= together["peak_bytes"] and together["resident_rows"] >= 0
    assert f'windrow_late_total{{query="batch",shard="0"}} {together["late"]}' in metrics.to_prometheus()


def moments(random: Random, push: int) -> pa.Table:
    """About two seconds of rows."""
    rows = []
    for _ in range(random.randrange(6)):
        time = (2 * push + random.randrange(3)) * SECOND - random.choice([0, 0, 0, SECOND, 5 * SECOND])
        values = {"k": random.randrange(2), "v": random.randrange(3), "op": random.choice([1, 1, 1, -1])}
        rows.append({"t": None if random.random() < 0.05 else max(time, 0), **values})
    return pa.Table.from_pylist(rows, schema=MOMENTS)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"text": TEXTS[0].replace("3 s", "4 s")}, 'of another query: query text was "Select'),
        ({"lateness": "1 s"}, "lateness was .* and is now"),
        ({"sign": "op"}, 'sign was nothing and is now "op"'),
        ({"schema": MOMENTS.set(2, pa.field("v", pa.int32()))}, "column 'v' of S was int64 and is now int32"),
        ({"schema": MOMENTS.remove(3)}, "S has no column 'op' any more"),
    ],
)
def test_a_state_of_another_text_is_refused(change: dict[str, Any], told: str) -> None:
    given = {"text": TEXTS[0], "schema": MOMENTS, **change}
    random, rows = Random(1), moments(Random(1), 3)
    old = task(wr.cql(TEXTS[0]), MOMENTS)
    old.push({"S": rows}, random)
    new = task(wr.cql(given.pop("text")), given.pop("schema"), **given)
    new.kept = old.kept
    schema = new.job.schemas[0]
    with pytest.raises(wr.errors.SnapshotError, match=told):
        new.push({"S": rows.select(schema.names).cast(schema)}, random)
    old.push({"S": rows}, random)


def test_options_that_a_join_does_not_let_change_are_refused_with_what_to_do() -> None:
    text, random, rows = wr.cql(TEXTS[1]), Random(1), {name: moments(Random(1), 3) for name in "ST"}
    old = task(text, MOMENTS)
    old.push(rows, random)
    for change, told in (
        ({"constraints": "auto"}, "constraints was nothing"),
        ({"seed": 3}, "seed was 0 and is now 3"),
    ):
        new = task(text, MOMENTS, **change)
        new.kept = old.kept
        with pytest.raises(
            wr.errors.SnapshotError, match=f"checkpoint does not go on: .*{told}.*new checkpoint"
        ) as error:
            new.push(rows, random)
        assert "query=" not in str(error.value)
    same = task(text, MOMENTS, lateness="0 seconds")  # as withWatermark may declare it
    same.kept = old.kept
    same.push(rows, random)


def test_memory_holds_and_recall_is_told() -> None:
    """A budget in rows is that of the join, whose shedding is seen in the counters."""
    text = "Select count(*) as n From L [Range 900], R [Range 900] Where L.k = R.k"
    ours, random = task(wr.cql(text), SCHEMA, memory=100, policy="fifo"), Random(2)
    for start in range(0, 600, 200):
        rows = [{"t": t, "k": t % 7, "g": 0, "v": 0} for t in range(start, start + 200)]
        _, counters = ours.push(dict.fromkeys("LR", pa.Table.from_pylist(rows, schema=SCHEMA)), random)
    assert counters["shed"] > 0 and 0 < counters["recall"] < 1
    assert counters["text"]["joins"][0]["resident_rows"] <= 100
