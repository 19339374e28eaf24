"""A warm shard: attached, pushed to and parked again, against an engine that stays in its process; and its memory.

Each round is what a micro-batch does to a shard: a fresh process attaches to the parked engine, pushes a few rows, and
parks it. Rows and matches per micro-batch stay the same while the state grows. The proportional set size is what the process holds
of the memory that it maps, beside what it had before it attached.
"""

import argparse
import multiprocessing
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
from bench_snapshot import batch
from harness import save, show

import windrow as wr
from windrow.spec import pair_query

BATCH = 100_000  # rows of each stream in a push while it is filled


def made(residents: int, capped: bool) -> wr.Engine:
    """An engine with so many residents, whose window they fill, or whose memory is full of them."""
    window = 4 * residents if capped else residents // 2
    engine = wr.Engine(pair_query("k", "t", window, memory=residents if capped else None), recall=capped)
    rows = min(BATCH, residents // 8)
    for first in range(0, residents, rows):
        engine.push(batch(first, rows, first, residents))
    return engine


def more(residents: int, rows: int, number: int) -> dict[str, pa.Table]:
    """The rows of a micro-batch: both streams together bring so many."""
    return batch(residents + number * rows // 2, rows // 2, number, residents)


def held() -> dict[str, int]:
    """Bytes of this process: its proportional set size, and what of it is files or shared memory."""
    found = {}
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]:
        name, size = line.split()[:2]
        found[name.rstrip(":")] = 1024 * int(size)
    return {"all": found["Pss"], "mapped": found["Pss_File"] + found["Pss_Shmem"]}


def micro_batch(folder: str, rows: dict[str, pa.Table], answers: Any) -> None:
    """What a worker does: it has pushed before, so that kernels are loaded, and begins with nothing."""
    small = made(2_000, False)
    small.push(more(2_000, 100, 0))
    del small
    before, times = held(), [time.perf_counter()]
    engine = wr.Engine.attach(folder)
    times.append(time.perf_counter())
    found = engine.push(rows)
    times.append(time.perf_counter())
    after, allocated = held(), engine.allocated_bytes
    times.append(time.perf_counter())
    engine.park(folder)
    del engine
    times.append(time.perf_counter())
    memory = {f"{name}_bytes": after[name] - before[name] for name in after}
    seconds = {"attach": times[1] - times[0], "push": times[2] - times[1], "park": times[4] - times[3]}
    answers.put(seconds | memory | {"allocated_bytes": allocated, "matches": found.num_rows})


def measure(place: str, residents: int, rows: int, capped: bool, rounds: int) -> dict[str, Any]:
    """Medians over the rounds, and the same pushes in an engine that stays."""
    stays = made(residents, capped)
    workers = multiprocessing.get_context("fork")
    answers, turns, staying = workers.Queue(), [], []
    with tempfile.TemporaryDirectory(dir=place) as folder:
        began = time.perf_counter()
        wr.Engine.restore(stays.snapshot()).park(folder)
        first = time.perf_counter() - began
        for number in range(rounds):
            batches = more(residents, rows, number)
            worker = workers.Process(target=micro_batch, args=(folder, batches, answers))
            worker.start()
            turns.append(answers.get())
            worker.join()
            began = time.perf_counter()
            assert stays.push(batches).num_rows == turns[-1]["matches"]
            staying.append(time.perf_counter() - began)
        again = wr.Engine.attach(folder)
        assert again.snapshot() == stays.snapshot() and again.metrics == stays.metrics
    medians = {name: statistics.median(turn[name] for turn in turns) for name in turns[0]}
    setting = {"place": place, "residents": stays.metrics.resident_rows, "capped": capped, "rows": rows}
    return setting | medians | {"stays": statistics.median(staying), "restore_and_park": first}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--residents", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--places", nargs="+", default=["/dev/shm", tempfile.gettempdir()])
    given = parser.parse_args()
    lines = [
        measure(place, residents, given.rows, capped, given.rounds)
        for capped in (False, True)
        for residents in given.residents
        for place in given.places
    ]
    show(
        f"a micro-batch of {given.rows:,} rows, ms (medians of {given.rounds}); MB that the process holds",
        ("engine", "attach", "push", "park", "all", "push if it stays", "allocated", "held more", "of it mapped"),
        [
            (f"{i['residents']:,}{' capped' if i['capped'] else ''} in {i['place']}",
             *(1e3 * i[name] for name in ("attach", "push", "park")),
             1e3 * (i["attach"] + i["push"] + i["park"]), 1e3 * i["stays"],
             *(i[name] / 1e6 for name in ("allocated_bytes", "all_bytes", "mapped_bytes")))
            for i in lines
        ],
    )  # fmt: skip
    save("warm", {"lines": lines})


if __name__ == "__main__":
    main()
