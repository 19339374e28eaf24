"""What the proofs of sites share: streams as files, a description, processes, a link that can fail, and one engine."""

import contextlib
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import windrow as wr


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody uses now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def streams(
    names: Iterable[str], rows: int, span_ms: int, keys: int, seed: int, width: int = 20
) -> dict[str, pa.Table]:
    """Streams in order of time, with texts of some width as payload."""
    rng, found = np.random.default_rng(seed), {}
    for name in names:
        time_ms = np.sort(rng.integers(0, span_ms, rows))
        letters = rng.integers(97, 123, (rows, width), dtype=np.uint8)
        found[name] = pa.table(
            {
                "ts": pa.array(time_ms * 1000, pa.timestamp("us")),
                "k": rng.integers(0, keys, rows),
                "id": np.arange(rows),
                "text": pa.array([bytes(line).decode() for line in letters]),
            }
        )
    return found


def write_files(root: Path, tables: Mapping[str, pa.Table], files: int = 1) -> None:
    """Each stream as a folder of files."""
    for name, table in tables.items():
        (root / name).mkdir(parents=True)
        step = -(-table.num_rows // files)
        for k in range(files):
            pq.write_table(table.slice(k * step, step), root / name / f"{k:04}.parquet")


def one_engine(query: wr.Query, tables: Mapping[str, pa.Table]) -> pa.Table:
    """The matches of one engine that sees everything."""
    return wr.Engine(query, {name: table.schema for name, table in tables.items()}).push(dict(tables))


def same(found: pa.Table, expected: pa.Table) -> bool:
    """Whether two tables have the same rows, with their counts."""
    if found.num_rows != expected.num_rows:
        return False
    keys = [(name, "ascending") for name in expected.column_names]
    return found.select(expected.column_names).sort_by(keys).equals(expected.sort_by(keys))


class Places:
    """The sites of a description as processes on this machine, each in its own prefix of commands."""

    def __init__(self, file: Path, names: Iterable[str], prefix: Mapping[str, list[str]] | None = None) -> None:
        self.file, self.names, self.prefix = file, list(names), prefix or {}
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        """Serve a site."""
        path = [str(Path(wr.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
        program = [*self.prefix.get(name, []), sys.executable, "-m", "windrow", "site", "serve", str(self.file)]
        with (self.file.parent / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen([*program, "--name", name], env=env, stdout=log, stderr=log)

    def kill(self, name: str) -> None:
        """SIGKILL a site."""
        self.running[name].send_signal(signal.SIGKILL)
        self.running.pop(name).wait()

    def finish(self, seconds: float) -> None:
        """Wait until all sites have ended by themselves."""
        deadline = time.monotonic() + seconds
        for name, process in self.running.items():
            try:
                code = process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                code = None
            if code != 0:
                self.stop()
                sys.exit(f"site {name} {'did not end' if code is None else f'ended with {code}'}:\n{self.log(name)}")

    def stop(self) -> None:
        """Kill whoever is left."""
        for process in self.running.values():
            process.kill()

    def log(self, name: str, lines: int = 40) -> str:
        """The last lines that a site has logged."""
        return "\n".join((self.file.parent / f"{name}.log").read_text().splitlines()[-lines:])

    def status(self) -> dict[str, Any]:
        """The figures of all sites."""
        description = wr.sites.describe(self.file)
        return {name: wr.sites.status(description, name) for name in self.names}


class Relay:
    """A link of a test: passes connections on with a latency, or not at all while it is down."""

    def __init__(self, port: int, to: int, latency: float = 0.0, host: str = "127.0.0.1") -> None:
        self.to, self.latency, self.down = to, latency, False
        self.bytes = 0
        self._listener = socket.create_server((host, port))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            visitor, _ = self._listener.accept()
            if self.down:
                visitor.close()
                continue
            try:
                inner = socket.create_connection(("127.0.0.1", self.to), 2.0)
                inner.settimeout(None)
            except OSError:
                visitor.close()
                continue
            for one, other in ((visitor, inner), (inner, visitor)):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                waiting: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
                threading.Thread(target=self._receive, args=(one, waiting), daemon=True).start()
                threading.Thread(target=self._send, args=(one, other, waiting), daemon=True).start()

    def _receive(self, one: socket.socket, waiting: "queue.SimpleQueue[tuple[float, bytes]]") -> None:
        """Note what comes in, and when it may leave; nothing is the end."""
        data = b"-"
        while data:
            try:
                data = one.recv(1 << 16)
            except OSError:
                data = b""
            waiting.put((time.monotonic() + self.latency, data))

    def _send(self, one: socket.socket, other: socket.socket, waiting: Any) -> None:
        """Send on what has waited for long enough, in order."""
        try:
            while (late := waiting.get())[1]:
                time.sleep(max(0.0, late[0] - time.monotonic()))
                while self.down:  # a link that is down says nothing
                    time.sleep(0.05)
                other.sendall(late[1])
                self.bytes += len(late[1])
        except OSError:
            pass
        finally:
            for each in (one, other):
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()


def until(there: Callable[[], bool], seconds: float, what: str) -> None:
    """Look again and again until something is there."""
    deadline = time.monotonic() + seconds
    while not there():
        if time.monotonic() > deadline:
            sys.exit(f"{what}: not within {seconds:g} seconds")
        time.sleep(0.05)


def write_description(path: Path, data: Mapping[str, Any]) -> Path:
    """A description as JSON."""
    path.write_text(json.dumps(data, indent=1))
    return path
