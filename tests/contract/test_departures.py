"""Every lost match can be found from the departures: output + what they missed = the exact join."""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.running import examples

import windrow as wr
from windrow.errors import WindrowError

Row = tuple[str, int, int, int]  # stream, id, key, time
WINDOW = {"left": 6, "right": 4}


@st.composite
def pushes(draw: st.DrawFn) -> list[list[Row]]:
    """Batches of rows, more or less in order of time, with a few keys."""
    found, start, number = [], 0, 0
    for _ in range(draw(st.integers(1, 6))):
        batch = []
        for _ in range(draw(st.integers(0, 12))):
            stream = draw(st.sampled_from(["left", "right"]))
            batch.append((stream, number, draw(st.integers(0, 3)), start + draw(st.integers(-6, 6))))
            number += 1
        found.append(batch)
        start += draw(st.integers(0, 8))
    return found


def table(rows: list[Row], stream: str) -> pa.Table:
    mine = [row[1:] for row in rows if row[0] == stream]
    columns = list(zip(*mine, strict=True)) or [(), (), ()]
    return pa.table(dict(zip(("id", "k", "t"), (pa.array(c, pa.int64()) for c in columns), strict=True)))


def fits(left: Any, right: Any) -> bool:
    gap = left["t"] - right["t"]
    return left["k"] == right["k"] and -WINDOW["left"] < gap < WINDOW["right"]


def missed(departed: dict[str, list[dict[str, Any]]], history: dict[str, list[dict[str, Any]]]) -> Counter[Any]:
    """The pairs that the rule of departures.py says were missed."""
    found: Counter[Any] = Counter()
    late = {s: {r["id"] for r in rows if r["windrow_why"] == "late"} for s, rows in departed.items()}
    disordered = {
        s: {r["id"]: r["windrow_seq"] for r in rows if r["windrow_why"] == "disordered"} for s, rows in departed.items()
    }
    shed = {s: {r["id"]: r for r in rows if r["windrow_why"] in ("shed", "sampled")} for s, rows in departed.items()}
    for left in history["left"]:
        for right in history["right"]:
            if not fits(left, right):
                continue
            if left["id"] in late["left"] or right["id"] in late["right"]:
                found[left["id"], right["id"]] += 1
                continue
            for (s, x), (o, y) in ((("left", left), ("right", right)), (("right", right), ("left", left))):
                gone = shed[s].get(x["id"])
                if gone is None:
                    continue
                after = y["t"] > gone["windrow_clock"] or disordered[o].get(y["id"], -1) >= gone["windrow_seq"]
                found[left["id"], right["id"]] += after
    return +found


@examples(200)
@given(
    pushes(),
    st.integers(1, 6),
    st.sampled_from([policy.name for policy in wr.policies.ALL]),
    st.booleans(),
    st.integers(0, 8),
    st.sampled_from([None, 0.3, 0.8, "unbiased"]),
    st.none() | st.lists(st.integers(-6, 30), min_size=6, max_size=6).map(sorted),
)
def test_output_and_what_departures_missed_are_the_exact_join(
    batches: list[list[Row]], memory: int, policy: str, split: bool, lateness: int, sample: Any, told: list[int] | None
) -> None:
    """With a clock of the engine's own, or with one that is told after each push."""
    streams = [wr.Stream(name, "t", wr.Window.time(size), lateness) for name, size in WINDOW.items()]
    budget = wr.Memory(max(memory, 2) if split else memory, split=split or None)
    query = wr.Query(
        streams=streams,
        on="k",
        select={"a": "left.id", "b": "right.id"},
        memory=budget,
        policy=policy,
        sample=sample,
    )
    schemas = {name: table([], name).schema for name in WINDOW}
    engine = wr.Engine(query, schemas, departures=True, own_clock=told is None)
    output: Counter[Any] = Counter()
    departed: dict[str, list[dict[str, Any]]] = {name: [] for name in WINDOW}
    for k, batch in enumerate(batches):
        matches = engine.push({name: table(batch, name) for name in WINDOW})
        engine.push({}, watermark=told[k] if told is not None else None)
        output.update((m["a"], m["b"]) for m in matches.to_pylist())
        for name, rows in engine.departed().items():
            departed[name] += rows.to_pylist()
    history = {name: table([r for b in batches for r in b], name).to_pylist() for name in WINDOW}
    exact = Counter((a["id"], b["id"]) for a in history["left"] for b in history["right"] if fits(a, b))
    assert output + missed(departed, history) == exact
    whys = Counter(row["windrow_why"] for rows in departed.values() for row in rows)
    assert whys["shed"] + whys["sampled"] == engine.metrics.total("shed")
    assert whys["sampled"] == engine.metrics.total("sampled")
    assert whys["late"] == engine.metrics.total("late")


def one_key(rows: int, stream: str, time: int = 0) -> pa.Table:
    return pa.table({"id": np.arange(rows), "k": np.zeros(rows, np.int64), "t": np.full(rows, time)})


def test_an_instant_of_more_rows_than_a_group_holds_says_who_met_whom() -> None:
    query = wr.Query(
        streams=[wr.Stream(n, "t", 10) for n in WINDOW],
        on="k",
        memory=100,
        policy="fifo",
        select={"a": "left.id", "b": "right.id"},
    )
    engine = wr.Engine(query, departures=True)
    matches = engine.push({"left": one_key(3000, "left"), "right": one_key(3000, "right")})
    history = {name: one_key(3000, name).to_pylist() for name in WINDOW}
    departed = {name: rows.to_pylist() for name, rows in engine.departed().items()}
    assert matches.num_rows < 9_000_000
    shed = {n: {r["id"]: r for r in rows if r["windrow_why"] == "shed"} for n, rows in departed.items()}
    number = {
        n: {r["id"]: r["windrow_seq"] for r in rows if r["windrow_why"] == "disordered"} for n, rows in departed.items()
    }
    lost = 0
    for s, o in (("left", "right"), ("right", "left")):
        gone = np.array([r["windrow_seq"] for r in shed[s].values()])
        later = np.sort(np.array(list(number[o].values())))
        lost += int((len(later) - np.searchsorted(later, gone, side="left")).sum())
    assert matches.num_rows + lost == len(history["left"]) * len(history["right"])


def test_departures_must_be_asked_for_before_a_snapshot() -> None:
    query = wr.Query(streams=[wr.Stream(n, "t", 10) for n in WINDOW], on="k", memory=2, policy="fifo")
    engine = wr.Engine(query, departures=True)
    engine.push({"left": one_key(5, "left"), "right": one_key(1, "right")})
    with pytest.raises(WindrowError, match="departed"):
        engine.snapshot()
    assert sum(t.num_rows for t in engine.departed().values()) == engine.metrics.total("shed") > 0
    again = wr.Engine.restore(engine.snapshot())
    assert again.departed()["left"].num_rows == 0
    with pytest.raises(WindrowError, match="departures=True"):
        wr.Engine(query).departed()


def test_a_shrinking_memory_hands_out_what_it_sheds() -> None:
    query = wr.Query(streams=[wr.Stream(n, "t", 10) for n in WINDOW], on="k")
    engine = wr.Engine(query, departures=True)
    engine.push({"left": one_key(5, "left"), "right": one_key(1, "right")})
    engine.memory = 2
    assert sum(t.num_rows for t in engine.departed().values()) == engine.metrics.total("shed") == 4


def test_columns_that_departures_would_add_twice() -> None:
    query = wr.Query(streams=[wr.Stream(n, "t", 10) for n in WINDOW], on="k", memory=2)
    rows = one_key(2, "left").append_column("windrow_why", pa.array(["x", "y"]))
    with pytest.raises(wr.errors.DuplicateColumn, match=r"a column 'windrow_why'.*rename it"):
        wr.Engine(query, departures=True).push({"left": one_key(2, "left"), "right": rows})
    wr.Engine(query).push({"left": one_key(2, "left"), "right": rows})


def test_a_watermark_from_outside_expires_and_makes_late() -> None:
    query = wr.Query(streams=[wr.Stream(n, "t", 10) for n in WINDOW], on="k", memory=100)
    engine = wr.Engine(query, departures=True)
    engine.push({"left": one_key(5, "left"), "right": one_key(0, "right")})
    assert engine.metrics.total("resident_rows") == 5
    engine.push({}, watermark=100)
    assert engine.watermark == 100
    assert engine.metrics.total("resident_rows") == 0 and engine.metrics.total("expired") == 5
    engine.push({"right": one_key(2, "right", 99)}, watermark=50)
    assert engine.metrics.total("late") == 2
    assert engine.departed()["right"]["windrow_why"].to_pylist() == ["late", "late"]
