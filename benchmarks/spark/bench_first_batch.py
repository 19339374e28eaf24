"""The first micro-batch of a join on a cluster whose worker has never compiled a kernel.

    warm      the worker's machine has compiled this join before: the baseline
    shipped   it has not, but the driver's has: compiled kernels travel with the job
    alone     neither has: the worker compiles

Each time a standalone worker is started anew, with a home and a NUMBA_CACHE_DIR of its own, and a program that joins
two streams, in Spark classic or through Spark Connect. The clock runs from the call of `windrow.join` to the end of the
first micro-batch, with the start of Python in it, and the matches are compared. `functions` are those that the worker
has compiled.
"""

import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from harness import save, show

LIMIT = 10.0  # seconds that the first micro-batch may take longer than warm
ROWS, KEYS = 20_000, 2_000
FIGURES = ("first", "called", "functions")
SETTINGS = {
    "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "OFF",
    "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.executor.memory": "1g",
    "spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g",
}  # fmt: skip


# ------------------------------------------------------------------------------------------- the program


def program(address: str, folder: str, policy: str) -> None:
    """Join two streams on a cluster, and print the seconds of the first micro-batch and how many matches there are."""
    from pyspark.sql import SparkSession

    import windrow as wr

    builder = SparkSession.builder
    if address.startswith("sc://"):
        session = builder.remote(address).getOrCreate()
    else:
        for name, value in SETTINGS.items():
            builder = builder.config(name, value)
        session = builder.master(address).getOrCreate()
    session.range(1).count()  # the executor is there
    streams = [
        session.readStream.schema("ts timestamp, k long").option("maxFilesPerTrigger", 1).parquet(f"{folder}/{side}")
        for side in ("left", "right")
    ]
    started = time.perf_counter()
    capped: dict[str, Any] = {} if policy == "exact" else {"memory": 5_000, "policy": policy}
    matches = wr.join(*streams, on="k", time="ts", within="100 seconds", shards=2, **capped)
    called = time.perf_counter() - started
    writer = matches.writeStream.format("memory").queryName("matches").option("checkpointLocation", f"{folder}/check")
    query = writer.trigger(availableNow=True).start()
    while query.lastProgress is None and query.isActive:
        time.sleep(0.02)
    first = time.perf_counter() - started
    query.awaitTermination()
    print(json.dumps({"first": first, "called": called, "matches": session.table("matches").count()}))
    session.stop()


def streams(folder: Path) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    for side in ("left", "right"):
        (folder / side).mkdir()
        for part in range(2):
            ts = (np.arange(ROWS) + part * ROWS) * 10_000
            table = pa.table({"ts": pa.array(ts, pa.timestamp("us", "UTC")), "k": rng.integers(0, KEYS, ROWS)})
            pq.write_table(table, folder / side / f"{part}.parquet")


# ------------------------------------------------------------------------------------------- the cluster


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(cache: Path | None = None, home: Path | None = None) -> dict[str, str]:
    found = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1"}
    found |= {} if cache is None else {"NUMBA_CACHE_DIR": str(cache)}
    return found | ({} if home is None else {"HOME": str(home)})


@contextmanager
def java(env: dict[str, str], *words: str) -> Iterator[None]:
    """A process of Spark's own, until it is no longer needed."""
    import pyspark

    script = Path(pyspark.__file__).parent / "bin" / "spark-class"
    process = subprocess.Popen([script, *words], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


@contextmanager
def served(address: str) -> Iterator[str]:
    """A Spark Connect server on a cluster."""
    port = free_port()
    plugin = {"spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin"}
    settings = {**SETTINGS, **plugin, "spark.connect.grpc.binding.port": str(port)}
    code = (
        "import sys, json; from pyspark.sql import SparkSession; b = SparkSession.builder.master(sys.argv[1])\n"
        "[b.config(k, v) for k, v in json.loads(sys.argv[2]).items()]; s = b.getOrCreate(); s.range(1).count()\n"
        "print('there', flush=True); sys.stdin.read(); s.stop()"
    )
    command = [sys.executable, "-c", code, address, json.dumps(settings)]
    pipe = subprocess.PIPE
    server = subprocess.Popen(command, env=environment(), stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout is not None and server.stdout.readline()
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.communicate("")


def run(master: str, how: str, policy: str, worker_cache: Path, driver_cache: Path) -> dict[str, Any]:
    """One program on a new worker; what it says, and how many functions the worker has compiled."""
    words = ("org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "2", "--memory", "1g")
    before = len(list(worker_cache.rglob("*.nbc")))
    with tempfile.TemporaryDirectory() as place:
        home = Path(place, "home")
        home.mkdir()
        streams(Path(place))
        env = environment(worker_cache, home)
        with java(env, *words, "--webui-port", "0", "--work-dir", f"{place}/work", master):
            if how == "connect":
                with served(master) as address:
                    said = _called(address, place, policy, driver_cache)
            else:
                said = _called(master, place, policy, driver_cache)
    return {**said, "functions": len(list(worker_cache.rglob("*.nbc"))) - before}


def _called(address: str, place: str, policy: str, cache: Path) -> dict[str, Any]:
    command = [sys.executable, __file__, "--program", address, place, policy]
    done = subprocess.run(command, env=environment(cache), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--policy", default="prob")
    parser.add_argument("--how", nargs="*", default=["classic", "connect"])
    parser.add_argument("--alone", action="store_true", help="also let the worker compile: minutes")
    parser.add_argument("--program", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.program:
        program(*args.program)
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left behind
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    words = ("org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
    lines = []
    with tempfile.TemporaryDirectory() as folder, java(environment(), *words):
        kept = Path(os.environ.get("NUMBA_CACHE_DIR", f"{folder}/kept"))
        compile = [sys.executable, "-m", "windrow", "compile", "--policy", args.policy, "--streams", "2", "--jobs", "1"]
        subprocess.run(compile, env=environment(kept), check=True, capture_output=True)
        for how in args.how:
            runs: dict[str, list[dict[str, Any]]] = {}
            for turn in range(args.rounds):
                for what in ("warm", "shipped", *(["alone"] if args.alone and turn == 0 else [])):
                    new, other = Path(folder, f"{how}-{what}-{turn}"), Path(folder, f"driver-{how}-{what}-{turn}")
                    caches = {"warm": (kept, other), "shipped": (new, kept), "alone": (new, other)}
                    runs.setdefault(what, []).append(run(master, how, args.policy, *caches[what]))
                    print(f"  {how} {what}: {runs[what][-1]}", file=sys.stderr, flush=True)
            assert len({said["matches"] for mine in runs.values() for said in mine}) == 1, runs
            for what, mine in runs.items():
                figures = {name: statistics.median(said[name] for said in mine) for name in FIGURES}
                lines.append({"how": how, "worker": what, **figures})
    later = {i["how"]: i["first"] for i in lines if i["worker"] == "warm"}
    show(
        f"the first micro-batch of a join under {args.policy} (median of {args.rounds})",
        ("how", "worker", "first micro-batch s", "s after warm", "of it the call s", "functions compiled"),
        [(i["how"], i["worker"], i["first"], i["first"] - later[i["how"]], i["called"], i["functions"]) for i in lines],
    )
    save("first_batch", {"limit_seconds": LIMIT, "policy": args.policy, "lines": lines})


if __name__ == "__main__":
    main()
