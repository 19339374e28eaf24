"""A client that means harm, at the port of a site: refused, counted, logged in one line; then the join is as it was.

Catches: bytes that a stranger makes a site keep, connections that are held open until nobody else gets in, headers and
numbers that end a thread instead of a call, a site that hands rows to another one's stream, messages that count twice.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight
import pytest
from tests.contract.test_sites_flight import certificates, described, expected, finish, ports, rows, talk, until
from tests.running import assert_same, multiset

import windrow as wr
from windrow.errors import WindrowError
from windrow.sites.ground import door
from windrow.sites.ground.door import PREFACE
from windrow.sites.ground.handing import Handing
from windrow.sites.ground.serving import Serving, serve
from windrow.sites.messages import MAGIC, VERSION, Message

__all__ = ["certificates"]  # a fixture


def hello(serving: Serving, **other: Any) -> dict[str, Any]:
    return {"version": VERSION, "description": serving.description.id, "site": "B", **other}


def dial(serving: Serving, data: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", serving.server.door.port), 5.0)
    connection.sendall(data)
    return connection


TALKATIVE = {"sequences": {"a": [["b", "SM-D1"]], "b": [["a", "SP-D"]]}}  # B says much without being asked


def messages(file: Path) -> Iterator[bytes]:
    """What site B really says to A."""
    site = wr.sites.describe(file).course("B")
    for interval in range(6):
        table = rows(ord("b"))
        mine = table.filter(pa.compute.equal(pa.compute.divide(table["t"], 10), interval))
        for message in site.take("b", interval, mine).messages + site.advance().messages:
            yield message.encode()


def test_strangers_are_sent_away_before_they_fill_the_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(door, "PATIENCE", 1.0)
    monkeypatch.setattr(door, "MOST", 8)
    file = described(tmp_path)
    one = serve(file, "A")
    held = [dial(one, data) for data in (b"", PREFACE[:9], PREFACE)]  # half-open: silent, half a word, a word
    until(lambda: one.running.refused.get("at the door") == 3)
    held += [dial(one, PREFACE) for _ in range(20)]  # more than there is room for
    other = serve(file, "B")
    finish(one, other)  # the site that is known gets in
    counted = one.running.refused["at the door"]
    lines = [r.getMessage() for r in caplog.records if "refused (" in r.getMessage() and "site A" in r.getMessage()]
    assert 3 + 12 <= counted == len(lines) and not any("\n" in line for line in lines)
    for each in held:
        each.close()
    assert_same(multiset(wr.sites.results(file)), expected(file))


def test_a_stranger_can_say_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "PATIENCE", 1.0)
    (tmp_path / "token").write_text("a token of the sites")
    one = serve(described(tmp_path, files=False, security={"token": "token"}), "A")
    try:
        with flight.FlightClient(f"grpc+tcp://{one.address}") as client, pytest.raises(pa.ArrowException):
            list(client.do_action(flight.Action("status", b"x" * (64 << 20)), flight.FlightCallOptions(timeout=5)))
        assert one.server.door.received < door.EARLY + 2 * door.CHUNK  # of 64 MB
        assert one.running.refused.get("at the door") == 1
        shown = [("a token of the sites".replace("a token", "a tokem")), "", "\x00", "é"]
        for text in shown:
            options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {text}".encode())], timeout=5)
            with flight.FlightClient(f"grpc+tcp://{one.address}") as client, pytest.raises(pa.ArrowException):
                list(client.do_action(flight.Action("status", b""), options))
        table = pa.table({"t": range(100_000), "k": range(100_000), "id": range(100_000)})
        Handing.to(one.description, "a").rows(table)  # rows of a known program are no stranger's, however many
        until(lambda: one.running.arrivals["a"].rows == 100_000)
    finally:
        one.stop()


def test_whatever_else_flight_can_be_asked_is_refused(tmp_path: Path) -> None:
    one = serve(described(tmp_path, files=False), "A")
    try:
        with flight.FlightClient(f"grpc+tcp://{one.address}") as client:
            calls = [
                lambda: list(client.list_flights()), lambda: list(client.list_actions()),
                lambda: client.do_get(flight.Ticket(b"x")).read_all(),
                lambda: client.get_flight_info(flight.FlightDescriptor.for_path("x")),
                lambda: client.get_schema(flight.FlightDescriptor.for_path("x")),
                lambda: list(client.do_action(flight.Action("shutdown", b""))),
            ]  # fmt: skip
            for call in calls:
                with pytest.raises((flight.FlightError, pa.ArrowException)):
                    call()
        assert one.running.refused == {"unknown calls": len(calls)}
    finally:
        one.stop()


def test_numbers_that_are_none_end_a_call_and_no_thread(tmp_path: Path) -> None:
    file = described(tmp_path)
    one = serve(file, "A")
    here = {"next": 0, "seen": 0, "full": 0}
    tell = [{"number": 1e999, "ends": {}, "done": 0}, {"number": 1, "ends": {"b": 1e999}, "done": 0},
            {"number": 1, "ends": {"b": 10**12}, "done": 0}, {"number": 1, "ends": [], "done": 0}, 7]  # fmt: skip
    frames = [json.dumps({**here, "facts": facts}).encode() for facts in tell]
    frames += [json.dumps({**here, name: value}).encode() for name in here if name != "full"
               for value in (1e999, -(10**30), 10**30, 10**12, None)]  # fmt: skip
    header = [VERSION, one.running.network.plan.id, "b@", "B", "A", 0, "zstd", []]
    for place, value in ((0, 2), (1, "x"), (3, "A"), (4, "B"), (5, 1e999), (5, None), (6, "pickle"), (7, 5),
                         (7, [["b.k", [], 1, 1, 1]]), (7, [["b.k", {}, 1, 1e999, 0]]), (7, [[{}, {}, 1, 1, 0]]),
                         (7, [["?", {}, 0, 0, 0]])):  # fmt: skip
        text = json.dumps([*header[:place], value, *header[place + 1 :]]).encode()
        frames.append(MAGIC + len(text).to_bytes(4, "little") + text)
    try:
        for frame in frames:
            with pytest.raises(flight.FlightServerError):
                talk(one.address, hello(one), frame)
        assert one.running.refused == {"messages": len(frames)}
        assert one.running.told == {} and one.running.progress == {}
    finally:
        finish(one, serve(file, "B"))
    assert_same(multiset(wr.sites.results(file)), expected(file))


def test_a_message_that_was_altered_is_refused_or_readable(tmp_path: Path) -> None:
    file = described(tmp_path, plan=TALKATIVE)
    description = wr.sites.describe(file)
    network, chance = description.network, random.Random(15)
    refused = 0
    for data in messages(file):
        for _ in range(100):
            forged = bytearray(data)
            for _ in range(chance.choice((1, 1, 4, 40))):
                forged[chance.randrange(len(forged))] = chance.randrange(256)
            if chance.random() < 0.3:
                forged = forged[: chance.randrange(len(forged))]
            elif chance.random() < 0.2:
                forged += os.urandom(chance.randrange(1, 9))
            try:
                Message.decode(bytes(forged), network.schema_of, network.plan.id)
            except WindrowError:
                refused += 1
    assert refused > 1000


def test_messages_that_are_replayed_count_once(tmp_path: Path) -> None:
    file = described(tmp_path, plan=TALKATIVE)
    said = list(messages(file))
    assert len(said) == 12
    one = serve(file, "A")
    for _ in range(3):
        with contextlib.suppress(flight.FlightError):
            talk(one.address, hello(one), *said)
    until(lambda: one.running.site.repeated == 2 * len(said))
    finish(one, serve(file, "B"))
    assert_same(multiset(wr.sites.results(file)), expected(file))


def test_rows_come_with_the_certificate_of_their_site(tmp_path: Path, certificates: Path) -> None:
    sites = {
        name: {"address": f"127.0.0.1:{port}", "certificate": str(certificates / f"{name}.pem"),
               "key": str(certificates / f"{name}.key")}
        for name, port in zip("AB", ports(2), strict=True)
    }  # fmt: skip
    file = described(tmp_path, files=False, sites=sites, security={"authority": str(certificates / "ca.pem")})
    one = serve(file, "A")
    try:
        own = Handing.to(file, "a")
        forged = Handing(own.location, own.head, {**own.options, **_shown(certificates, "B")}, own.headers, 1.0)
        with pytest.raises(WindrowError, match="its certificate names B"):
            forged.rows(rows(1))
        own.rows(rows(1))
        assert one.running.refused == {"strangers": 1} and one.running.arrivals["a"].rows == 400
    finally:
        one.stop()


def _shown(certificates: Path, name: str) -> dict[str, bytes]:
    chain, key = ((certificates / f"{name}.{kind}").read_bytes() for kind in ("pem", "key"))
    return {"cert_chain": chain, "private_key": key}
