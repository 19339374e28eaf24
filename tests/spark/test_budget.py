"""Above the budget: the cap holds in every shard, what is said of the losses is true, and repair gives them back."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from tests.running import assert_part, assert_same, multiset
from tests.spark.folders import Folders
from tests.spark.joining import joined, joined_by_spark, started, static, streamed

import windrow as wr
from windrow.spark.metrics import COUNTERS, QueryMetrics
from windrow.spark.scrape import HELD

SELECT = {name: name.replace("_", ".") for name in ("left_id", "right_id", "left_ts", "right_ts", "left_tags")}
# memory of all shards, policy, shards, files of each stream per micro-batch
BUDGETS = [("48 kB", "auto", 3, 1), (60, "life", 2, 2)]


@dataclass(frozen=True)
class Run:
    """A join that had to shed, and what Spark's own join makes of the same rows."""

    memory: wr.Memory
    shards: int
    archive: str
    metrics: QueryMetrics
    output: Counter[Any]
    exact: Counter[Any]
    in_time: int
    repaired: Counter[Any]
    note: str

    @property
    def totals(self) -> dict[str, Any]:
        return self.metrics.to_dict()


@pytest.fixture(scope="module", params=BUDGETS, ids=lambda budget: f"{budget[1]}-{budget[2]}")
def run(request: Any, spark: Any, late_folders: Folders, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    memory, policy, shards, files = request.param
    archive = str(tmp_path_factory.mktemp("archive"))
    options = {"memory": memory, "policy": policy, "shards": shards, "archive": archive, "select": SELECT}
    if isinstance(memory, int):  # rows that a sampler leaves out are given back, too
        options["sample"] = 0.2
    query, name = started(
        joined(*(streamed(spark, p, files) for p in late_folders.paths.values()), "number", **options)
    )
    metrics = wr.spark.metrics(query)
    query.awaitTermination()
    sides = [static(spark, late_folders, side) for side in late_folders.paths]
    exact = joined_by_spark(*sides, "number").select(*SELECT)
    late = [spark.read.parquet(f"{archive}/{side}").where("windrow_why = 'late'") for side in late_folders.paths]
    keys = ["id", "ts"]  # a late row and its twin are both late: they come in one file
    in_time = joined_by_spark(*(s.join(x, keys, "left_anti") for s, x in zip(sides, late, strict=True)), "number")
    yield Run(
        wr.Memory.of(memory), shards, archive, metrics,
        output=multiset(spark.table(name).toArrow()), exact=multiset(exact.toArrow()), in_time=in_time.count(),
        repaired=multiset(wr.repair(archive, *sides).toArrow()), note=f"seed {late_folders.seed}",
    )  # fmt: skip


def test_output_and_repair_are_the_exact_join(run: Run) -> None:
    assert_part(run.output, run.exact)
    assert_same(run.output + run.repaired, run.exact, run.note)
    assert run.output.total() < run.in_time < run.exact.total(), "rows were shed, and rows were late"


def test_no_shard_was_ever_above_its_cap(run: Run) -> None:
    assert len(run.metrics.shards) == run.shards
    for shard in run.metrics.shards.values():
        if run.memory.bytes is not None:
            assert 0 < shard["peak_bytes"] <= run.memory.bytes // run.shards
        else:
            assert 0 < shard["peak_rows"] <= run.memory.rows // run.shards


def test_counters_add_up(run: Run) -> None:
    for shard in run.metrics.shards.values():
        for counters in (shard, *shard["streams"].values()):
            left = sum(counters[name] for name in ("late", "ignored", "resident_rows", "expired", "released", "shed"))
            assert counters["arrived"] == left
    totals = run.totals
    assert totals["matched"] == run.output.total()
    assert totals["late"] > 0 and totals["ignored"] > 0 and totals["shed"] > 0 and totals["expired"] > 0


def test_every_row_arrived_once_and_every_loss_is_in_the_archive(run: Run, spark: Any, late_folders: Folders) -> None:
    assert run.totals["arrived"] == sum(table.num_rows for table in late_folders.tables.values())
    whys: Counter[str] = Counter()
    for side in late_folders.paths:
        found = spark.read.parquet(f"{run.archive}/{side}").groupBy("windrow_why").count().collect()
        whys.update({line["windrow_why"]: line["count"] for line in found})
    assert (whys["sampled"] > 0) == (run.memory.rows is not None)
    assert whys["shed"] + whys["sampled"] == run.totals["shed"] and whys["late"] == run.totals["late"]
    assert whys["disordered"] > 0


def test_recall_is_in_its_own_interval(run: Run) -> None:
    if run.memory.bytes is not None:  # so few bytes that none are left for an estimate: it says so
        assert run.metrics.recall is run.totals["recall_interval"] is run.totals["exact_matched"] is None
        return
    low, high = run.totals["recall_interval"]
    true = run.output.total() / run.in_time
    assert low <= true <= high, (low, true, high, run.note)
    assert 0 < low <= run.metrics.recall <= high < 1


def test_metrics_as_json_and_over_http(run: Run) -> None:
    server = run.metrics.serve()
    try:
        base = f"http://127.0.0.1:{server.server_address[1]}"
        with urlopen(f"{base}/metrics?x=1", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        with urlopen(f"{base}/metrics.json", timeout=30) as answer:
            assert json.load(answer) == json.loads(run.metrics.to_json())
    finally:
        server.shutdown()
        server.server_close()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    for name in COUNTERS:
        kind = "gauge" if name in HELD else "counter"
        metric = f"windrow_{name}" if name in HELD else f"windrow_{name}_total"
        assert f"# TYPE {metric} {kind}" in lines
        start = f'{metric}{{query="{run.metrics.name}",shard='
        found = [int(value) for key, value in values.items() if key.startswith(start)]
        assert len(found) == run.shards and sum(found) == run.totals[name]
    recall = values.get(f'windrow_recall{{query="{run.metrics.name}"}}')
    assert (None if recall is None else float(recall)) == run.metrics.recall
    assert run.metrics.name.startswith("matches_"), "the query has a name"


def test_an_archive_belongs_to_one_join(run: Run, spark: Any, late_folders: Folders) -> None:
    streams = [streamed(spark, path) for path in late_folders.paths.values()]
    says = r"is of another join: on was .*number.* and is now .*name.*Set that back, or start anew"
    with pytest.raises(wr.errors.SpecError, match=says):
        joined(*streams, "name", shards=run.shards, archive=run.archive, memory=50)
    sides = [static(spark, late_folders, side) for side in late_folders.paths]
    with pytest.raises(wr.errors.InputError, match="batch DataFrames"):
        wr.repair(run.archive, *streams)
    with pytest.raises(wr.errors.UnknownColumn, match="'number'"):
        wr.repair(run.archive, sides[0].drop("number"), sides[1])
    with pytest.raises(wr.errors.SpecError, match="column 'extra' that the stream did not have"):
        wr.repair(run.archive, sides[0].selectExpr("*", "1 as extra"), sides[1])
    with pytest.raises(wr.errors.InputError, match="no archive of windrow"):
        wr.repair(str(Path(run.archive) / "left"), *sides)


def test_batch_mode_has_metrics_and_a_budget_too(spark: Any, folders: Folders) -> None:
    sides = [static(spark, folders, side) for side in folders.paths]
    exact = joined_by_spark(*sides, "number").count()
    matches = joined(*sides, "number", memory="30%", shards=2)
    rows = matches.count()
    metrics = wr.spark.metrics(matches)
    assert 0 < rows == metrics.to_dict()["matched"] < exact
    low, high = metrics.to_dict()["recall_interval"]
    assert low <= rows / exact <= high
    assert metrics.to_dict()["late"] == 0 and len(metrics.shards) == 2
