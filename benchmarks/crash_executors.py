"""Crash of executors: a cluster whose executors and workers are killed while a join runs, and one that is left alone.

The join, its streams and what is compared are those of crash.py. The cluster is a master and two workers, processes
of their own with folders of their own, each with one executor of one core. At random moments an executor, or a worker
with its executor, is killed with SIGKILL; a worker is then started again. Spark moves shards to where there is room:
engines that were warm there are of an older version or of none, and states are rebuilt from the checkpoint. Output,
archive and counters must be those of the run that was left alone.
"""

import argparse
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from crash import compared, finished, noted, started, write_streams
from harness import note, save, show, wall

sys.path.insert(0, str(Path(__file__).parent / "spark"))
from bench_first_batch import environment, free_port

SCRIPT = Path(pyspark.__file__).parent / "bin" / "spark-class"
DEPLOY = "org.apache.spark.deploy"
EXECUTOR = "CoarseGrainedExecutorBackend"


class Cluster:
    """A master and two workers."""

    def __init__(self, root: Path) -> None:
        self.root, port = root, free_port()
        self.address = f"spark://127.0.0.1:{port}"
        words = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        env = environment() | {"SPARK_MASTER_OPTS": "-Dspark.deploy.maxExecutorRetries=-1 -Dspark.worker.timeout=600"}
        self.master = subprocess.Popen([SCRIPT, f"{DEPLOY}.master.Master", *words], env=env, **_quiet())
        _answers(port)
        self.workers = [self._worker(k) for k in range(2)]

    def _worker(self, number: int) -> subprocess.Popen[bytes]:
        folder = self.root / f"worker-{number}"
        folder.mkdir(exist_ok=True)
        words = ("--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0")
        env = environment() | {"SPARK_LOCAL_DIRS": str(folder), "SPARK_WORKER_DIR": str(folder)}
        words = (*words, "--work-dir", str(folder), self.address)
        return subprocess.Popen([SCRIPT, f"{DEPLOY}.worker.Worker", *words], env=env, **_quiet())

    def executors(self) -> list[int]:
        """The processes of executors that run now."""
        mine = {worker.pid for worker in self.workers}
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and EXECUTOR.encode() in (entry / "cmdline").read_bytes():
                    parent = int((entry / "stat").read_text().rsplit(") ", 1)[1].split()[1])
                    found += [int(entry.name)] if parent in mine else []
            except OSError:  # it has ended meanwhile
                continue
        return found

    def kill(self, chance: random.Random) -> str | None:
        """Kill an executor or, one time in four, a worker; which it was, None if there was none."""
        if chance.random() < 0.25:
            number = chance.randrange(2)
            self.workers[number].kill()
            self.workers[number].wait()
            self.workers[number] = self._worker(number)
            return "worker"
        found = self.executors()
        if not found:
            return None
        os.kill(chance.choice(sorted(found)), signal.SIGKILL)
        return "executor"

    def stop(self) -> None:
        for process in (*self.workers, self.master):
            process.terminate()
        for process in (*self.workers, self.master):
            process.wait()


def _answers(port: int) -> None:
    """Wait until somebody listens: a driver that finds no master within a minute gives up."""
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.2)


def _quiet() -> dict[str, Any]:
    return {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


@contextmanager
def cluster(root: Path) -> Iterator[Cluster]:
    root.mkdir()
    found = Cluster(root)
    try:
        yield found
    finally:
        found.stop()


def disturbed(streams: Path, out: Path, args: argparse.Namespace, root: Path) -> list[dict[str, Any]]:
    """A run on a cluster on which something is killed again and again; the last micro-batches are left in peace."""
    chance, kills, last = random.Random(args.seed), [], args.files - 4
    with cluster(root) as spark:
        driver = started(streams, out, args.rows, spark.address)
        while driver.poll() is None and len(kills) < args.kills and (done := noted(out, "commits")) < last:
            time.sleep(chance.random() * args.pause)
            what = spark.kill(chance) if noted(out, "commits") else None  # not before the first is committed
            if what is not None:
                kills.append({"killed": what, "committed": done})
                note(f"  {len(kills)}/{args.kills} killed, {done}/{args.files} micro-batches")
        finished(driver, out)
    return kills


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=60, help="of each stream; one of each is a micro-batch")
    parser.add_argument("--rows", type=int, default=1_000, help="in a file")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--pause", type=float, default=8.0, help="seconds between two kills, at most")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="windrow-crash-"))
    try:
        write_streams(root / "streams", args.files, args.rows, args.seed, once=False)
        alone, killed = root / "alone", root / "killed"
        alone.mkdir()
        killed.mkdir()
        note("  undisturbed")
        begun = wall()
        with cluster(root / "calm") as spark:
            finished(started(root / "streams", alone, args.rows, spark.address), alone)
        seconds = wall() - begun
        kills = disturbed(root / "streams", killed, args, root / "cluster")
        figures = {"rows": 2 * args.files * args.rows, "batches": noted(alone, "commits"), **compared(alone, killed)}
        figures |= {"seconds_alone": seconds, "seconds_killed": wall() - begun - seconds}
    finally:
        shutil.rmtree(root, ignore_errors=True)
    note("")
    kinds = {kind: sum(kill["killed"] == kind for kill in kills) for kind in ("executor", "worker")}
    show(f"{len(kills)} kills: same output, archive and counters", ("figure", "value"), {**figures, **kinds}.items())
    save("crash_executors", {**figures, **kinds, "kills": kills})


if __name__ == "__main__":
    main()
