"""Sites over Arrow Flight, on loopback: the join of one engine; and whoever should not talk to a site is refused.

Catches: messages lost or doubled between processes, a site that cannot go on after SIGKILL, strangers who get in,
refusals that nobody counts, garbage that harms.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.flight as flight
import pyarrow.parquet as pq
import pytest
from tests.contract.test_sites import one_engine
from tests.running import assert_same, multiset
from typer.testing import CliRunner

import windrow as wr
from windrow.cli import app
from windrow.errors import InputError, SpecError, WindrowError
from windrow.sites.ground import neighbours, server, sources
from windrow.sites.ground.handing import Handing
from windrow.sites.ground.neighbours import Neighbour
from windrow.sites.ground.server import Server
from windrow.sites.ground.serving import Serving, serve
from windrow.sites.ground.sources import FileSource
from windrow.sites.messages import VERSION

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = {"t": "int64", "k": "int64", "id": "int64"}
STREAM = {"site": "A", "time": "t", "window": 20}


def ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return found


def rows(seed: int, count: int = 400) -> pa.Table:
    rng = np.random.default_rng(seed)
    times, keys = np.sort(rng.integers(0, 200, count)), rng.integers(0, 60, count)
    return pa.table({"t": times, "k": keys, "id": np.arange(count)})


def described(root: Path, files: bool = True, **more: Any) -> Path:
    """Two sites with a stream each."""
    one, other = ports(2)
    stream: dict[str, Any] = {"time": "t", "window": 20, "schema": COLUMNS}
    data: dict[str, Any] = {
        "on": "k",
        "select": [["a.id", "a"], ["b.id", "b"]],
        "interval": 10,
        "streams": {"a": {**stream, "site": "A"}, "b": {**stream, "site": "B"}},
        "sites": {"A": {"address": f"127.0.0.1:{one}"}, "B": {"address": f"127.0.0.1:{other}"}},
        "plan": {"sequences": {"a": [["b", "SM-S2"]], "b": [["a", "SM-D1"]]}},
    }
    for name in "ab" if files else "":
        data["streams"][name]["file"] = f"{name}.parquet"
        pq.write_table(rows(ord(name)), root / f"{name}.parquet")
    for name, value in more.items():
        data[name] = {**data.get(name, {}), **value} if isinstance(value, dict) else value
    path = root / "sites.json"
    path.write_text(json.dumps(data))
    return path


def expected(file: Path) -> Any:
    return one_engine(wr.sites.describe(file).query, {name: rows(ord(name)) for name in "ab"})


def until(there: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < deadline, "this never came"
        time.sleep(0.02)


def finish(*servings: Serving) -> None:
    try:
        assert all(serving.wait(60) for serving in servings)
    finally:
        for serving in servings:
            serving.stop()


def test_two_sites_over_loopback_are_one_engine(tmp_path: Path) -> None:
    file = described(tmp_path)
    finish(serve(file, "A"), serve(file, "B"))
    assert_same(multiset(wr.sites.results(file)), expected(file))


def test_rows_that_are_handed_over_twice_count_once(tmp_path: Path) -> None:
    file = described(tmp_path, files=False)
    one, other = serve(file, "A"), serve(file, "B")
    handing, table = Handing.to(file, "a"), rows(ord("a"))
    for k in range(4):
        for _ in range(2):
            handing.rows(table.slice(100 * k, 100), batch=k)
    other.feed("b", rows(ord("b")))
    wr.sites.end(file, "a")
    other.end("b")
    finish(one, other)
    assert one.running.refused == {"repeated batches": 4}
    assert_same(multiset(wr.sites.results(file)), expected(file))


def test_rows_of_a_stream_that_reads_files_come_from_nowhere_else(tmp_path: Path) -> None:
    """Nor its end: rows that are read after that would be refused. By this program as by others."""
    file = described(tmp_path)
    one = serve(file, "A")
    try:
        for attempt in (lambda: one.feed("a", rows(1, 5)), lambda: one.end("a")):
            with pytest.raises(SpecError, match="the rows of stream 'a' come from files"):
                attempt()
        finish(one, serve(file, "B"))
    finally:
        one.stop()
    assert_same(multiset(wr.sites.results(file)), expected(file))


def test_a_silent_stream_is_waited_for_and_a_heartbeat_goes_on(tmp_path: Path) -> None:
    file = described(tmp_path, files=False)
    one, other = serve(file, "A"), serve(file, "B")
    try:
        one.feed("a", pa.table({"t": [1, 2, 200], "k": [1, 2, 3], "id": [0, 1, 2]}))
        until(lambda: one.running.lacking().get("site B") == 0)
        other.feed("b", pa.table({"t": [3], "k": [1], "id": [0]}))
        assert one.running.results.rows + other.running.results.rows == 0
        other.feed("b", pa.table({"t": [], "k": [], "id": []}, schema=rows(1).schema), until=100)
        until(lambda: one.running.results.rows + other.running.results.rows == 1)
        until(lambda: other.figures.last["interval"] == 10 and other.figures.last["waits_for"] == {"stream b": 10})
    finally:
        one.stop()
        other.stop()


def test_rows_that_nobody_notes_are_not_taken_for_safe(tmp_path: Path) -> None:
    """A site that has stopped says so; and a heartbeat in another unit is refused before it is noted."""
    file = described(tmp_path, files=False)
    one = serve(file, "A")
    handing, table = Handing.to(file, "a"), rows(1, 5)
    try:
        for far in (10**15, 2**62):
            with pytest.raises(InputError, match="up to which all its rows"):
                one.feed("a", table, until=far)
            with pytest.raises(WindrowError, match="up to which all its rows"):
                handing.rows(table, batch=0, until=far)
        one.feed("a", table)
    finally:
        one.stop()
    with pytest.raises(WindrowError, match="has stopped before the rows of 'a' were noted"):
        one.feed("a", table)


def test_numbers_of_batches_begin_at_0(tmp_path: Path) -> None:
    """One below would be a batch of before, also after the end of the stream, and its rows would meet nobody."""
    file = described(tmp_path, files=False)
    one = serve(file, "A")
    try:
        one.end("a")
        with pytest.raises(WindrowError, match="a number from 0 on, got -1"):
            Handing.to(file, "a").rows(rows(1, 5), batch=-1)
        assert one.running.arrivals["a"].rows == 0
    finally:
        one.stop()


def test_what_a_kill_has_left_is_cleared_away(tmp_path: Path) -> None:
    """What a snapshot has replaced, and one that was not written to its end."""
    file = described(tmp_path, files=False, snapshot="1 B")
    one = serve(file, "A")
    one.feed("a", rows(1, 5))
    one.stop()
    folder, number = one.running.keeping.folder, one.running.keeping.number
    assert number > 0
    for name in (f"journal-{number - 1}", f"snapshot-{number - 1}", f"snapshot-{number + 1}.part"):
        (folder / name).write_bytes(b"left")
    again = serve(file, "A")
    again.stop()
    left = {path.name for path in folder.iterdir() if path.name.startswith(("snapshot", "journal"))}
    number = again.running.keeping.number
    assert f"journal-{number}" in left <= {f"journal-{number}", f"snapshot-{number}"}
    assert again.running.arrivals["a"].rows == 5


def test_a_site_that_is_away_is_waited_for_within_what_may_be_held(tmp_path: Path) -> None:
    file = described(tmp_path, hold="20 kB", streams={"a": {"site": "A", "time": "t", "window": 20, "schema": COLUMNS}})
    one = serve(file, "A")
    handing = Handing.to(file, "a")
    table = pa.table({"t": np.arange(20_000) // 20, "k": np.arange(20_000) % 60, "id": np.arange(20_000)})
    for k in range(20):
        handing.rows(table.slice(1000 * k, 1000), batch=k)
    until(lambda: one.running.full)
    time.sleep(0.5)
    waiting = one.running.arrivals["a"]
    assert one.running.held < 200_000 and waiting.next < 100 and waiting.bytes > 100_000  # it holds, and takes no more
    handing.rows(table.slice(0, 0), end=True)
    other = serve(file, "B")
    finish(one, other)
    tables = {"a": table, "b": rows(ord("b"))}
    assert_same(multiset(wr.sites.results(file)), one_engine(wr.sites.describe(file).query, tables))


def test_a_process_that_is_killed_goes_on(tmp_path: Path) -> None:
    paced = {n: {"site": n.upper(), "time": "t", "window": 20, "schema": COLUMNS, "file": f"{n}.parquet", "pace": 50}
             for n in "ab"}  # fmt: skip
    file = described(tmp_path, streams=paced, snapshot="20 kB")
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}

    def start() -> subprocess.Popen[bytes]:
        program = [sys.executable, "-m", "windrow", "site", "serve", str(file), "--name", "B"]
        return subprocess.Popen(program, env=env, stderr=subprocess.DEVNULL)

    one, process = serve(file, "A"), start()
    try:
        for results in (3, 9):
            until(lambda least=results: len(list(tmp_path.rglob("0*.parquet"))) >= least, 60)  # type: ignore[misc]
            process.send_signal(signal.SIGKILL)
            process.wait()
            process = start()
        finish(one)
        assert process.wait(60) == 0
    finally:
        process.kill()
    assert_same(multiset(wr.sites.results(file)), expected(file))


class Relay:
    """Passes connections on; the first so many are passed on up to so many bytes, then nothing more, without a word."""

    def __init__(self, target: int, *most: int) -> None:
        self.target, self.most, self.count = target, most, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.open: list[socket.socket] = [self.listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                ends = [self.listener.accept()[0], socket.create_connection(("127.0.0.1", self.target))]
                self.open += ends
                left = [self.most[self.count] if self.count < len(self.most) else 1 << 40]
                self.count += 1
                for one, other in (ends, ends[::-1]):
                    threading.Thread(target=self._pass, args=(one, other, left), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket, left: list[int]) -> None:
        with contextlib.suppress(OSError):
            while (data := one.recv(1 << 16)) and left[0] > 0:
                left[0] -= len(data)
                if left[0] > 0:
                    other.sendall(data)
            if left[0] > 0:
                other.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        for each in self.open:
            each.close()


def test_a_link_that_stops_in_the_middle_of_a_message_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first connection falls silent before a word, the second stops when a part of a large message is over."""
    monkeypatch.setattr(neighbours, "DEAF", 0.8)
    monkeypatch.setattr(server, "PULSE", 0.1)
    one, other = ports(2)
    relay = Relay(other, 250, 300_000)
    sites = {"A": {"address": f"127.0.0.1:{one}"}, "B": {"address": f"127.0.0.1:{relay.port}",
                                                         "listen": f"127.0.0.1:{other}"}}  # fmt: skip
    plan = {"sequences": {"a": [["b", "SP-D"]], "b": [["a", "SP-S"]]}}
    file = described(tmp_path, sites=sites, plan=plan)
    rng = np.random.default_rng(1)
    keys, numbers = rng.integers(60, 2**60, 100_000), rng.integers(0, 2**60, 100_000)
    many = pa.table({"t": np.zeros(100_000, np.int64), "k": keys, "id": numbers})
    pq.write_table(pa.concat_tables([many, rows(ord("a"))]), tmp_path / "a.parquet")
    there = serve(file, "B")
    finish(serve(file, "A"), there)
    assert relay.count == 3
    relay.close()
    assert_same(multiset(wr.sites.results(file)), one_engine(wr.sites.describe(file).query, {
        "a": pq.read_table(tmp_path / "a.parquet"), "b": rows(ord("b"))}))  # fmt: skip


def test_a_link_that_falls_silent_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where nothing is stuck in a call, since what is said still finds room on this side."""
    monkeypatch.setattr(neighbours, "DEAF", 0.8)
    monkeypatch.setattr(neighbours, "PULSE", 0.1)
    monkeypatch.setattr(server, "PULSE", 0.1)
    one, other = ports(2)
    relay = Relay(other, 5_000)
    sites = {"A": {"address": f"127.0.0.1:{one}"}, "B": {"address": f"127.0.0.1:{relay.port}",
                                                         "listen": f"127.0.0.1:{other}"}}  # fmt: skip
    file = described(tmp_path, files=False, sites=sites)
    servings = [serve(file, "B"), serve(file, "A")]  # the relay dials at once
    try:
        until(lambda: relay.count > 1)
    finally:
        for serving in servings:
            serving.stop()
        relay.close()
    assert [
        r for r in caplog.records if "site A: site B" in r.getMessage() and "said nothing for 0.8" in r.getMessage()
    ]


class Babble:
    """The writer of an exchange; one of its frames says what no site says."""

    def __init__(self, writer: Any, place: int, frame: bytes) -> None:
        self.writer, self.place, self.frame, self.count = writer, place, frame, 0

    def write_metadata(self, data: bytes) -> None:
        self.count += 1
        self.writer.write_metadata(self.frame if self.count == self.place else data)


@pytest.mark.parametrize("place", [1, 2])  # the first one is waited for before anything is sent; a thread hears others
@pytest.mark.parametrize("frame", [b"{}", b"[]", b"{", b'{"acks": {"x": null}, "told": 0}', b'{"acks": 5, "told": 0}'])
def test_an_answer_that_cannot_be_read_is_told_and_the_link_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, place: int, frame: bytes
) -> None:
    """Else a thread ends, and both sites wait for ever."""
    monkeypatch.setattr(neighbours, "LONGEST", 0.2)
    monkeypatch.setattr(server, "PULSE", 0.1)
    acknowledge, babbled = Server._acknowledge, list[str]()

    def babble(self: Server, site: str, writer: Any, over: threading.Event) -> None:
        if babbled.count(site) < 2:
            babbled.append(site)
            writer = Babble(writer, place, frame)
        acknowledge(self, site, writer, over)

    monkeypatch.setattr(Server, "_acknowledge", babble)
    ended = list[Any]()
    monkeypatch.setattr(threading, "excepthook", ended.append)
    file = described(tmp_path)
    finish(serve(file, "A"), serve(file, "B"))
    assert_same(multiset(wr.sites.results(file)), expected(file))
    told = [r.getMessage() for r in caplog.records if "has failed and is made again: " in r.getMessage()]
    assert len(told) == len(set(told)) == 2 and not any("\n" in line for line in told)  # each link, once
    assert not ended


def test_a_link_that_is_made_again_says_so_again_after_a_while_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(neighbours, "LONGEST", 0.01)
    monkeypatch.setattr(neighbours, "REMIND", 0.3)

    def wrong(self: Neighbour, chunk: Any) -> None:
        raise AttributeError("no\nsuch thing")

    monkeypatch.setattr(Neighbour, "_hear", wrong)
    file = described(tmp_path)
    one, other = serve(file, "A"), serve(file, "B")
    try:
        until(lambda: caplog.text.count("site A: the link to site B") > 1)
        assert one.neighbours["B"].attempts > 3
        assert "made again: AttributeError: no such thing" in caplog.text
    finally:
        one.stop()
        other.stop()


@pytest.mark.parametrize(
    "error", [KeyError("k"), TypeError("no\ntype"), AttributeError("x"), MemoryError(), OSError(5, "x")]
)
def test_a_source_that_cannot_go_on_ends_its_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    """Else it waits for rows that nobody reads."""

    def wrong(*_: Any) -> None:
        raise error

    monkeypatch.setattr(sources, "fitted", wrong)
    ended = list[Any]()
    monkeypatch.setattr(threading, "excepthook", ended.append)
    one = serve(described(tmp_path), "A")
    try:
        with pytest.raises(InputError, match=r"^stream 'a' cannot go on: ") as told:
            assert one.wait(20), "it waits"
    finally:
        one.stop()
    assert isinstance(error, OSError) or type(error).__name__ in str(told.value)
    assert [r.getMessage() for r in caplog.records if r.levelname == "ERROR"] == [f"site A: stopped: {told.value}"]
    assert "\n" not in str(told.value) and not ended


# -- who is refused ----------------------------------------------------------------------------------------------------


def talk(address: str, hello: dict[str, Any], *frames: bytes, **options: Any) -> list[dict[str, Any]]:
    """An exchange as a site would have it: what is answered before it ends."""
    headers = options.pop("headers", [])
    scheme = "grpc+tls" if options else "grpc+tcp"
    found: list[dict[str, Any]] = []
    with flight.FlightClient(f"{scheme}://{address}", **options) as client:
        descriptor = flight.FlightDescriptor.for_command(json.dumps(hello).encode())
        writer, reader = client.do_exchange(descriptor, flight.FlightCallOptions(timeout=10, headers=headers))
        found.append(json.loads(reader.read_chunk().app_metadata.to_pybytes()))
        for frame in frames:
            writer.write_metadata(frame)
        writer.done_writing()
        while True:
            try:
                found.append(json.loads(reader.read_chunk().app_metadata.to_pybytes()))
            except StopIteration:
                return found


def test_strangers_are_refused_counted_and_do_no_harm(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "token").write_text("a token of the sites\n")
    file = described(tmp_path, security={"token": "token"})
    one = serve(file, "A")
    address, running = one.address, one.running
    hello = {"version": VERSION, "description": one.description.id, "site": "B"}
    token = one.description.trust().headers()
    with pytest.raises(flight.FlightUnauthenticatedError):
        talk(address, hello)
    with pytest.raises(flight.FlightUnauthenticatedError):
        talk(address, hello, headers=[(b"authorization", b"Bearer a token of the others")])
    for other in ({"version": 0}, {"description": "x"}, {"site": "C"}, {"site": None}):
        with pytest.raises(flight.FlightUnauthorizedError):
            talk(address, {**hello, **other}, headers=token)
    for garbage in (b"wrs1", b"wrs1\xff\xff\xff\xff", b"{}", b"[" * 100_000, b"\x80\x04K\x01.", b'{"next":"x"}'):
        with pytest.raises(flight.FlightServerError):
            talk(address, hello, garbage, headers=token)
    stolen = json.dumps({"next": 0, "seen": 0, "full": 0, "facts": {"number": 9, "ends": {"a": 1}, "done": True}})
    with pytest.raises(flight.FlightServerError, match="which is not there"):
        talk(address, hello, stolen.encode(), headers=token)
    with pytest.raises(flight.FlightUnauthorizedError):  # the port behind the door
        talk(f"127.0.0.1:{one.server.port}", hello, headers=token)
    for data in (b"GET / HTTP/1.1\r\n\r\n" + b"x" * 50, os.urandom(300)):
        with socket.create_connection(("127.0.0.1", one.server.door.port)) as connection:
            connection.sendall(data)
            assert connection.recv(100) == b""
    until(lambda: running.refused.get("at the door") == 2)
    counted = {"wrong token": 2, "other plans": 2, "strangers": 2, "messages": 7, "not by the door": 1}
    counted["at the door"] = 2
    assert running.refused == counted
    lines = [record.getMessage() for record in caplog.records if "refused (" in record.getMessage()]
    assert len(lines) == sum(counted.values()) and not any("\n" in line for line in lines)
    until(lambda: wr.sites.status(one.description, "A")["refused"] == counted)
    finish(one, serve(file, "B"))
    assert_same(multiset(wr.sites.results(file)), expected(file))


def test_rows_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    file = described(tmp_path, files=False)
    one = serve(file, "A")
    handing = Handing.to(file, "a")
    try:
        for table in (pa.table({"t": [1]}), rows(1).set_column(1, "k", pa.array(["x"] * 400)),
                      pa.table({"t": [10**15], "k": [1], "id": [1]})):  # fmt: skip
            with pytest.raises(InputError, match="refuses these rows"):
                handing.rows(table)
        assert one.running.refused == {"rows": 3} and not one.running.arrivals["a"].rows
    finally:
        one.stop()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, certificates of both sites, and one that another authority has signed."""
    assert shutil.which("openssl"), "the test of certificates needs openssl"
    root = tmp_path_factory.mktemp("certificates")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=root, check=True, capture_output=True)

    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    for ca in ("ca", "other"):
        openssl("req", "-x509", *curve, "-keyout", f"{ca}.key", "-out", f"{ca}.pem", "-subj", f"/CN={ca}", "-days", "2")
    for name, ca in (("A", "ca"), ("B", "ca"), ("X", "other")):
        openssl("req", *curve, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        (root / "names").write_text(f"subjectAltName=DNS:{name}")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{ca}.pem", "-CAkey", f"{ca}.key", "-CAcreateserial",
                "-out", f"{name}.pem", "-days", "2", "-extfile", "names")  # fmt: skip
    return root


def test_certificates_say_who_may_talk(tmp_path: Path, certificates: Path) -> None:
    def site(name: str, port: int) -> dict[str, str]:
        files = {"certificate": str(certificates / f"{name}.pem"), "key": str(certificates / f"{name}.key")}
        return {"address": f"127.0.0.1:{port}", **files}

    one, other = ports(2)
    file = described(tmp_path, sites={"A": site("A", one), "B": site("B", other)},
                     security={"authority": str(certificates / "ca.pem")})  # fmt: skip
    serving = serve(file, "A")
    hello = {"version": VERSION, "description": serving.description.id, "site": "B"}
    shown = {"tls_root_certs": (certificates / "ca.pem").read_bytes(), "override_hostname": "A"}
    with pytest.raises((pa.ArrowException, OSError)):
        talk(serving.address, hello)  # no TLS at all
    with pytest.raises((pa.ArrowException, OSError)):
        talk(serving.address, hello, **shown)  # no certificate
    files = [[(certificates / f"{name}.{kind}").read_bytes() for kind in ("pem", "key")] for name in "XA"]
    strange, own = ({"cert_chain": chain, "private_key": key} for chain, key in files)
    with pytest.raises((pa.ArrowException, OSError)):
        talk(serving.address, hello, **shown, **strange)
    until(lambda: serving.running.refused.get("at the door", 0) >= 3)
    assert set(serving.running.refused) == {"at the door"}
    with pytest.raises(flight.FlightUnauthorizedError, match="its certificate names A"):
        talk(serving.address, hello, **shown, **own)  # a certificate of another site
    finish(serving, serve(file, "B"))
    assert_same(multiset(wr.sites.results(file)), expected(file))


def test_nobody_listens_beyond_loopback_without_certificates(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a token of the sites")
    for security in ({}, {"token": "token"}):
        file = described(tmp_path, sites={"A": {"address": "0.0.0.0:7015"}}, security=security)
        with pytest.raises(SpecError, match="strangers can reach it"):
            Serving(file, "A")
    (tmp_path / "token").write_text("short")
    with pytest.raises(SpecError, match="at least 16"):
        Serving(file, "A")


# -- the command line --------------------------------------------------------------------------------------------------


def test_a_plan_of_another_interval_and_a_port_in_use_are_said(tmp_path: Path) -> None:
    file = described(tmp_path)
    data = json.loads(file.read_text())
    (tmp_path / "plan.json").write_text(wr.sites.describe(file).plan.to_json())
    file.write_text(json.dumps(data | {"plan": "plan.json", "interval": 20}))
    with pytest.raises(SpecError, match="says 20: plan anew"):
        _ = wr.sites.describe(file).plan
    file.write_text(json.dumps(data | {"plan": "plan.json"}))
    host, port = data["sites"]["A"]["address"].split(":")
    with socket.create_server((host, int(port))), pytest.raises(InputError, match=f"listen on {host}:{port}: Addr"):
        Serving(file, "A")


@pytest.mark.parametrize("words", [["sites", "start"], ["site", "serve", "--name", "A"], ["sites", "simulate"]])
def test_a_plan_with_constraints_is_refused(tmp_path: Path, words: list[str]) -> None:
    """The only way in which a file can bring them."""
    file = described(tmp_path)
    plan = wr.sites.describe(file).plan
    constrained = plan.with_(query=plan.query.with_(constraints=[wr.Unique("a", "k")]))
    (tmp_path / "plan.json").write_text(constrained.to_json())
    file.write_text(json.dumps(json.loads(file.read_text()) | {"plan": "plan.json"}))
    ran = CliRunner().invoke(app, [*words, str(file)])
    assert ran.exit_code == 1 and "constraints release nothing at sites: leave" in ran.stderr, ran.stderr
    assert len(ran.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "sites.run").exists()


@pytest.mark.parametrize("fails", ["sources", "Flight"])
def test_a_site_that_cannot_start_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    """Else its folder and its port are taken for as long as the process lives, and it cannot be served again."""

    def wrong(*_: Any) -> None:
        raise KeyError("no such thing")

    file = described(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr(server, "INNER", f"grpc+tcp://127.0.0.1:{taken.getsockname()[1]}")
        if fails == "sources":
            monkeypatch.setattr(FileSource, "__init__", wrong)
        says = "no such thing" if fails == "sources" else "^site 'A' cannot start its server: "
        with pytest.raises(KeyError if fails == "sources" else InputError, match=says) as told:
            Serving(file, "A")
        assert "\n" not in str(told.value)
    monkeypatch.undo()
    finish(serve(file, "A"), serve(file, "B"))
    assert_same(multiset(wr.sites.results(file)), expected(file))


def test_status_says_who_is_away_and_how_it_goes(tmp_path: Path) -> None:
    file = described(tmp_path, files=False)
    one = serve(file, "A")
    one.feed("a", rows(1))
    until(lambda: one.figures.last["streams"]["a"]["arrived"] > 0)
    try:
        shown = CliRunner().invoke(app, ["sites", "status", str(file)])
        assert shown.exit_code == 0 and "B: away:" in shown.output
        assert "waits for site B (interval 0)" in shown.output and "stream a: 3" in shown.output, shown.output
        figures = json.loads(CliRunner().invoke(app, ["sites", "status", str(file), "--json"]).output)
        assert figures["A"]["links"]["B"]["kept"] > 0 and not figures["A"]["links"]["B"]["connected"]
    finally:
        one.stop()


def test_start_serves_all_sites(tmp_path: Path) -> None:
    file = described(tmp_path)
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    program = [sys.executable, "-m", "windrow", "sites", "start", str(file)]
    ran = subprocess.run(program, env=env, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert f"{expected(file).total():,} matches" in ran.stdout, ran.stdout


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sites": {"A": {"address": "nowhere"}}}, "an address is a host and a port"),
        ({"sites": {"A": {"adress": "127.0.0.1:1"}}}, "did you mean 'address'"),
        ({"plan": {"sequences": {"a": [["b", "SM-X"]], "b": [["a", "SP-S"]]}}}, "there is no program 'SM-X'"),
        ({"plan": "none.json"}, "none.json: reading failed"),
        ({"plan": 7}, "plan: expected names and values"),
        ({"plan": {"sequences": {"a": 5, "b": []}}}, "expected streams and programs"),
        ({"plan": {"sequences": {"a": [["x", "SP-D"]], "b": [["a", "SP-D"]]}}}, "'x'"),
        ({"interval": "1 parsec"}, "'1 parsec'"),
        ({"origin": "noon"}, "'noon'"),
        ({"origin": 1.5}, "1.5"),
        ({"result_at": "Z"}, "result_at: there is no site 'Z'"),
        ({"links": {"A - Z": {}}}, "there is no site 'Z'"),
        ({"security": {"token": "none"}}, "none: No such file"),
        ({"sites": {"A": {"address": "127.0.0.1:1"}, "B": {"address": "127.0.0.1:1"}}}, "the same address"),
        ({"sites": {"A": {"address": "127.0.0.1:1", "listen": "x"}}}, "sites.A: an address"),
        ({"streams": {"a": {**STREAM, "file": 5}}}, "file must be a name"),
        ({"streams": {"a": {**STREAM, "file": "none.parquet"}}}, "none.parquet is not at this place"),
        ({"streams": {"a": {**STREAM, "schema": "int64"}}}, "schema: expected names and values"),
        ({"streams": {"a": {**STREAM, "schema": {"t": "int46"}}}}, "'int46' names no Arrow type"),
        ({"streams": {"a": {**STREAM, "pace": "fast"}}}, "pace must be a number"),
        ({"streams": {"a": {**STREAM, "schema": COLUMNS, "idle": 5}}}, "these are numbers"),
        ({"streams": {"a": {"site": "Z", "time": "t"}}}, "streams.a: there is no site 'Z'"),
        ({"streams": {"a": {"site": "A", "time": "t", "window": 9}}}, "has no schema"),
        ({"streams": {"a": {"site": "A", "window": 9}}}, "'a' has none"),
        ({"hold": "much"}, "cannot read the size"),
    ],
)
def test_a_description_that_is_wrong_is_refused_in_one_line(tmp_path: Path, change: Any, words: str) -> None:
    file = described(tmp_path, **change)
    ran = CliRunner().invoke(app, ["site", "serve", str(file), "--name", "A"])
    assert ran.exit_code == 1 and words in ran.stderr and len(ran.stderr.strip().splitlines()) == 1, ran.stderr
