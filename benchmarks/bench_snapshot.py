"""Snapshot and restore of an engine, against a plain copy of the memory that it stands for: block and payload."""

import argparse
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from harness import Contestant, core, race, save, show

import windrow as wr
from windrow.spec import pair_query

SIZES = (100_000, 1_000_000)
BATCH = 100_000  # rows of each stream in a push


def batch(first: int, rows: int, seed: int, keys: int = 100_000) -> dict[str, pa.Table]:
    """Rows of both streams from a time on: time, key, amount, page."""
    rng, pages = np.random.default_rng(seed), pa.array([f"/item/{i}" for i in range(200)])
    return {
        side: pa.table(
            {
                "t": np.arange(first, first + rows),
                "k": rng.integers(0, keys, rows),
                "amount": rng.random(rows),
                "page": pages.take(pa.array(rng.integers(0, 200, rows))),
            }
        )
        for side in ("left", "right")
    }


def filled(residents: int, count_only: bool) -> wr.Engine:
    """An engine that has shed its way to a full memory of so many residents."""
    query = pair_query("k", "t", 10 * residents, memory=residents, policy="prob")
    engine = wr.Engine(query, count_only=count_only, recall=False)
    first = 0
    while first < 0.6 * residents:
        engine.push(batch(first, BATCH, first))
        first += BATCH
    assert engine.metrics.resident_rows == residents
    return engine


def one_row() -> wr.Engine:
    """A capped engine, recall estimated, that holds one row of each stream."""
    engine = wr.Engine(pair_query("k", "t", 1000, memory=1000, policy="prob"))
    engine.push(batch(0, 1, 0))
    return engine


def check(engine: wr.Engine, data: bytes) -> None:
    """The restored engine is the same, to the byte, and stays the same."""
    again = wr.Engine.restore(data)
    assert again.snapshot() == data and again.metrics == engine.metrics
    more = batch(10**7, 1_000, 1)
    one, other = engine.push(more), again.push(more)
    assert one == other and again.snapshot() == engine.snapshot()


def measure(residents: int, count_only: bool, rounds: int) -> dict[str, Any]:
    engine = filled(residents, count_only)
    data = engine.snapshot()
    held = engine._shard.words.nbytes + sum(payload.nbytes for payload in engine._payloads)
    raw = np.zeros(held, np.uint8)
    timings = race(
        {
            "copy": Contestant(lambda _: raw.copy()),
            "snapshot": Contestant(lambda _: engine.snapshot()),
            "restore": Contestant(partial(lambda data, _: wr.Engine.restore(data), data)),
        },
        rounds,
        core,
    )
    assert timings["snapshot"].result == data
    check(engine, data)
    per_row = {name: timing.median / residents * 1e9 for name, timing in timings.items()}
    return {
        "residents": residents,
        "payload": not count_only,
        "held_bytes_a_row": held / residents,
        "bytes_a_row": len(data) / residents,
        **per_row,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    lines = [measure(size, count_only, rounds) for size in SIZES for count_only in (True, False)]
    least = len(one_row().snapshot())
    print(f"one row: {least:,} bytes")
    show(
        f"snapshot and restore, ns a resident (median of {rounds}); baseline: a copy of block and payload",
        ("engine", "bytes held", "bytes saved", "copy", "snapshot", "copies", "restore", "copies"),
        [
            (f"{i['residents']:,} residents{', payload' if i['payload'] else ''}", i["held_bytes_a_row"],
             i["bytes_a_row"], i["copy"], i["snapshot"], i["snapshot"] / i["copy"],
             i["restore"], i["restore"] / i["copy"])
            for i in lines
        ],
    )  # fmt: skip
    save("snapshot", {"lines": lines, "one_row_bytes": least})


if __name__ == "__main__":
    main()
