"""Joins of three streams, and of bands, over shards: every match is found, and in one shard only."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tests.reference import exact_join
from tests.running import assert_same, multiset
from tests.spark.folders import write_files
from tests.spark.joining import collected, streamed

import windrow as wr
from windrow.spark.labels import labels, spark_hash

NAMES = ("a", "b", "c")
SCHEMA = pa.schema([("id", pa.int64()), ("t", pa.int64()), ("x", pa.int64()), ("y", pa.string()), ("z", pa.float64())])
ON = {
    "common key": "x",
    "chain": [wr.Equal("a.x", "b.x"), wr.Equal("b.y", "c.y")],
    "cycle": [wr.Equal("a.x", "b.x"), wr.Equal("b.y", "c.y"), wr.Equal("a.z", "c.z")],
    "star of a band": [wr.Equal("a.x", "b.x"), wr.Band("b.z", "c.z", 0.5)],
    "bands only": [wr.Band("a.z", "b.z", 0.5), wr.Band("b.x", "c.x", 0)],
}


@pytest.fixture(scope="module")
def rows(seed: int) -> dict[str, list[list[dict[str, Any]]]]:
    """Three parts of each stream, out of order by at most 5 steps."""
    random = Random(seed)

    def row(n: int) -> dict[str, Any]:
        maybe = [random.random() > 0.1 for _ in range(3)]
        values = random.randrange(4), random.choice("äbc"), random.choice([0.0, -0.0, 1.0, 2.5, float("nan")])
        x, y, z = (value if there else None for value, there in zip(values, maybe, strict=True))
        return {"id": n, "t": n - random.randrange(6), "x": x, "y": y, "z": z}

    return {name: [[row(n) for n in range(k * 25, k * 25 + 25)] for k in range(3)] for name in NAMES}


@pytest.fixture(scope="module")
def paths(rows: dict[str, list[Any]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("graphs")
    for name, parts in rows.items():
        write_files(root / name, [pa.Table.from_pylist(part, schema=SCHEMA) for part in parts])
    return {name: root / name for name in NAMES}


def query(on: Any, names: tuple[str, ...] = NAMES) -> wr.Query:
    streams = [wr.Stream(name, "t", 8 + k, 6) for k, name in enumerate(names)]
    return wr.Query(streams=streams, on=on, select={name: f"{name}.id" for name in names})


@pytest.mark.parametrize("graph", ON)
def test_three_streams_in_batch(
    spark: Any, rows: dict[str, list[Any]], paths: dict[str, Path], seed: int, graph: str
) -> None:
    join = query(ON[graph])
    exact = exact_join(join, [{name: [row for part in rows[name] for row in part] for name in NAMES}])
    assert exact.total() > 20
    frames = {name: spark.read.parquet(str(path)) for name, path in paths.items()}
    for shards in (1, 7) if graph == "cycle" else (7,):
        assert_same(multiset(join.on_spark(frames, shards=shards).toArrow()), exact, f"seed {seed}, {shards} shards")


def test_a_chain_of_three_streams_streaming(
    spark: Any, rows: dict[str, list[Any]], paths: dict[str, Path], seed: int
) -> None:
    join = query(ON["chain"])
    exact = exact_join(join, [{name: rows[name][k] for name in NAMES} for k in range(3)])
    frames = {name: streamed(spark, path) for name, path in paths.items()}
    assert_same(multiset(collected(join.on_spark(frames, shards=7))), exact, f"seed {seed}")


def test_a_join_by_a_band_only_streaming(
    spark: Any, rows: dict[str, list[Any]], paths: dict[str, Path], seed: int
) -> None:
    join = query([wr.Band("a.x", "b.x", 1)], NAMES[:2])
    exact = exact_join(join, [{name: rows[name][k] for name in NAMES[:2]} for k in range(3)])
    frames = {name: streamed(spark, paths[name]) for name in NAMES[:2]}
    assert_same(multiset(collected(join.on_spark(frames, shards=6))), exact, f"seed {seed}")


def test_shards_are_spread_as_sparks_hash_spreads_them(spark: Any) -> None:
    numbers = [0, 1, 2, 3, 41, 1000, 65535, 2**31 - 1]
    frame = spark.createDataFrame([(n,) for n in numbers], "n int")
    assert [spark_hash(n) for n in numbers] == [line[0] for line in frame.selectExpr("hash(n)").collect()]
    counts = (1, 2, 7, 8, 64)
    assert all(0 in labels(shards) for shards in counts), "the witness has the same label however many shards there are"
    frame = spark.createDataFrame([(shards, n) for shards in counts for n in labels(shards)], "shards int, n int")
    places = {tuple(line) for line in frame.selectExpr("shards", "pmod(hash(n), shards)").collect()}
    assert places == {(shards, place) for shards in counts for place in range(shards)}
