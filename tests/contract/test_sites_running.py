"""A running site without a network: what comes twice, after its end, or from the other end of time.

Catches: a batch that counts twice because both came before the site looked, rows that are called safe before they are
noted, rows that are taken and joined with nothing, times whose intervals do not fit into 64 bits.
"""

from __future__ import annotations

import errno
import gc
import logging
import os
import socket
import threading
import time
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.contract.test_sites_flight import COLUMNS, described, rows

from windrow.errors import InputError
from windrow.sites.ground import door
from windrow.sites.ground.description import describe
from windrow.sites.ground.running import Event, Running
from windrow.sites.ground.serving import serve
from windrow.sites.ground.sources import FileSource


@pytest.fixture
def site(tmp_path: Path) -> Running:
    return Running(describe(described(tmp_path, files=False)), "A")


def test_a_batch_that_comes_twice_before_the_site_looks_counts_once(
    site: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the answer of the first call was lost while the site wrote a snapshot; told only when it is noted."""
    order: list[str] = []
    monkeypatch.setattr(site.keeping, "flush", lambda: order.append("noted"))
    for _ in range(2):
        site.feed("a", rows(1, 10), position={"batch": 0}, safe=lambda: order.append("told"))
    site.round(0.0)
    assert site.arrivals["a"].rows == 10 and site.refused == {"repeated batches": 1}
    assert order == ["noted", "told", "told"]


def test_a_time_of_the_other_end_is_late_and_no_interval_of_the_future(tmp_path: Path) -> None:
    site = Running(describe(described(tmp_path, files=False, origin=1000)), "A")
    far = pa.table({"t": [-(2**63) + 2, -(2**62), 1005], "k": [1, 1, 1], "id": [0, 1, 2]})
    site.feed("a", far)
    site.end("a")
    site.round(0.0)
    assert site.arrivals["a"].ended == 1
    assert site.site.counters()["a"] == {"arrived": 3, "late": 2, "ignored": 0}
    bound = site.network.bound
    assert bound.interval_of(np.array([1000, 999, 2**63 - 1])).tolist() == [0, -1, (2**63 - 1 - 1000) // 10]


def test_rows_that_come_after_the_end_are_refused_and_a_batch_of_before_is_not(site: Running, tmp_path: Path) -> None:
    later = pa.table({"t": [500], "k": [1], "id": [9]})
    site.feed("a", rows(1, 10), position={"batch": 3})
    site.end("a")
    for _ in range(3):  # before the site looks, after it, and when it comes back
        for position in (None, {"batch": 4}):
            with pytest.raises(InputError, match="stream 'a' has ended"):
                site.feed("a", later, position=position)
        site.feed("a", rows(1, 10), position={"batch": 3})  # of a query that did not hear that it was noted
        site.feed("a", rows(1, 0), until=900)
        site.round(0.0)
        assert site.arrivals["a"].rows == 10
        if site.refused["repeated batches"] == 2:
            site.snapshot()
            site.keeping.close()
            site = Running(site.description, "A")
    site.keeping.close()


def test_an_end_is_told_when_it_is_noted(site: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    monkeypatch.setattr(site.keeping, "flush", lambda: order.append("noted"))
    site.end("a", lambda: order.append("told"))
    site.round(0.0)
    assert order == ["noted", "told"] and site.arrivals["a"].ended == 0


def test_a_disk_that_is_full_is_one_line_and_the_site_goes_on_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = described(tmp_path, files=False)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    one = serve(file, "A")
    one.feed("a", rows(1, 10))
    monkeypatch.setattr(os, "fdatasync", full)
    monkeypatch.setattr(os, "fsync", full)
    for attempt in (lambda: one.feed("a", rows(2, 10)), lambda: one.wait(5)):
        with pytest.raises(InputError, match=r"sites.run/A: writing failed: No space left on device\. Mend that"):
            attempt()
    assert not any(record.exc_info or "\n" in record.getMessage() for record in caplog.records)
    monkeypatch.undo()
    one = serve(file, "A")
    assert one.running.arrivals["a"].rows == 10  # who hands rows over has heard of an error, and does it again
    one.feed("a", rows(2, 10))
    one.stop()
    one = serve(file, "A")
    assert one.running.arrivals["a"].rows == 20
    one.stop()


def test_a_silent_stream_does_not_end_all_intervals_since_1970(tmp_path: Path) -> None:
    """Without an origin interval 0 begins there: the site says so instead of ending a thousand million intervals."""
    stream = {"time": "t", "window": "20 s", "idle": "1 ms", "schema": {**COLUMNS, "t": "timestamp[us]"}}
    streams = {name: {**stream, "site": name.upper()} for name in "ab"}
    file = described(tmp_path, files=False, interval="1 s", streams=streams)
    site = Running(describe(file), "A")
    site.arrivals["a"].heard -= 1.0
    with pytest.raises(
        InputError, match=r"'a': it is silent, and the wall clock is [\d,]+ intervals ahead of the stream"
    ):
        site.round(0.0)
    assert site.arrivals["a"].next == 0
    site.keeping.close()
    (tmp_path / "near").mkdir()
    origin = datetime.now(UTC).isoformat()
    file = described(tmp_path / "near", files=False, interval="1 s", streams=streams, origin=origin)
    site = Running(describe(file), "A")
    site.arrivals["a"].heard -= 1.0
    site.round(0.0)
    site.keeping.close()


def test_rows_are_handed_over_where_files_came_before_and_the_other_way(tmp_path: Path) -> None:
    """As the error about a stream with files advises: its folder goes on."""
    site = Running(describe(described(tmp_path, files=False)), "A")
    site.feed("a", rows(1, 10), position={"file": "a.parquet", "row": 10})
    site.round(0.0)
    site.feed("a", rows(2, 10), position={"batch": 0})
    site.round(0.0)
    assert site.arrivals["a"].rows == 20 and site.arrivals["a"].position == {"batch": 0}
    site.keeping.close()
    site = Running(describe(described(tmp_path)), "A")
    source = FileSource(site, "a", site.description.feeds["a"])
    source._run()
    site.round(0.0)
    assert source.failed is None and site.arrivals["a"].rows == 420
    site.keeping.close()


def test_who_waits_for_room_hears_that_the_site_has_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    one = serve(described(tmp_path, files=False), "A")
    one.running.arrivals["a"].coming = 1 << 40  # and never taken in
    found: list[BaseException] = []

    def feed() -> None:
        try:
            one.feed("a", rows(1, 10))
        except InputError as error:
            found.append(error)

    waiting = threading.Thread(target=feed, daemon=True)
    waiting.start()
    time.sleep(0.2)
    monkeypatch.setattr(os, "fdatasync", full)
    monkeypatch.setattr(os, "fsync", full)
    one.running.feed("a", None, until=1)
    waiting.join(5.0)
    assert not waiting.is_alive() and "writing failed" in str(found[0])


def test_rows_that_are_admitted_come_before_the_end(site: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread ends the stream after rows were admitted, and before they are in line."""
    offer, kinds = site.offer, list[str]()

    def offered(event: Event) -> None:
        if event.entry.kind == "feed":
            ending.start()
            ending.join(0.2)
        kinds.append(event.entry.kind)
        offer(event)

    ending = threading.Thread(target=site.end, args=("a",))
    monkeypatch.setattr(site, "offer", offered)
    site.feed("a", rows(1, 10))
    ending.join()
    site.keeping.close()
    assert kinds == ["feed", "end"]


def test_what_waits_is_counted_as_what_is_taken(tmp_path: Path) -> None:
    """Else the room for rows that wait grows with every batch. Also catches a look at all that waits in every round."""

    class Unseen(dict[int, list[pa.Table]]):
        def __iter__(self) -> Any:
            raise AssertionError("somebody looks at all intervals")

    columns = {name: {"schema": {"t": "int64", "k": "int64", "id": "string"}, "time": "t", "window": 20, "site": site}
               for name, site in zip("ab", "AB", strict=True)}  # fmt: skip
    site = Running(describe(described(tmp_path, files=False, streams=columns)), "A")
    arrivals = site.arrivals["a"]
    arrivals.waiting = Unseen()
    for k in range(10):
        times = list(range(100 * k, 100 * (k + 1)))
        ids = [None if t % 3 else str(t) for t in times]
        arrivals.feed(pa.table({"t": times, "k": times, "id": pa.array(ids, pa.string())}))
    assert arrivals.within(50, 1 << 40) == 50 and arrivals.within(50, 1) == 1
    assert arrivals.bytes > 0
    for interval in range(100):
        arrivals.take(interval)
    assert arrivals.bytes == 0
    site.keeping.close()


def test_a_silent_stream_waits_for_others_however_long_that_takes(tmp_path: Path) -> None:
    """Intervals of an own stream are not taken while others are behind; the wall clock goes on meanwhile."""
    stream = {"time": "t", "window": "20 ms", "idle": "1 ms", "schema": {**COLUMNS, "t": "timestamp[ms]"}}
    streams = {name: {**stream, "site": name.upper()} for name in "ab"}
    ago = datetime.fromtimestamp(time.time() - 86_400, UTC).isoformat()
    site = Running(describe(described(tmp_path, files=False, interval="1 ms", streams=streams, origin=ago)), "A")
    arrivals = site.arrivals["a"]
    arrivals.clock = site.network.bound.origin + 1
    arrivals.heard -= 1.0
    assert arrivals.ready(0, None) > 80_000_000
    now = pa.table({"t": pa.array([time.time_ns() // 10**6], pa.timestamp("ms")), "k": [1], "id": [0]})
    arrivals.check(now, None)
    site.keeping.close()


def test_a_stranger_who_is_sent_away_leaves_no_traceback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever makes room for others is told of in one line, and not in thirty when his time would have been over."""
    monkeypatch.setattr(door, "MOST", 1)
    monkeypatch.setattr(door, "PATIENCE", 0.5)
    inner = socket.create_server(("127.0.0.1", 0))
    told: list[str] = []
    one = door.Door("127.0.0.1", 0, None, lambda who, why: told.append(why))
    one.open(inner.getsockname()[1])
    visitors = []
    for _ in range(3):
        visitors.append(socket.create_connection(("127.0.0.1", one.port)))
        visitors[-1].sendall(door.PREFACE)
        visitors.append(inner.accept()[0])
    time.sleep(1.0)
    for each in (*visitors, inner):
        each.close()
    one.close()
    gc.collect()
    assert [why.partition(",")[0] for why in told[:2]] == ["1 connections are open"] * 2
    assert not [record for record in caplog.records if record.name == "asyncio" and record.levelno >= logging.ERROR]


@pytest.mark.parametrize("plan", [[["b", "SP-D"], ["a", "SP-S"]], [["b", "SP-S"], ["a", "SP-D"]]])
def test_intervals_without_rows_take_memory_too(tmp_path: Path, plan: list[list[str]]) -> None:
    """A stream that only says how far it is, while another site is away: what waits for that site is bounded."""
    sequences = {"a": [plan[0]], "b": [plan[1]]}
    file = described(tmp_path, files=False, plan={"sequences": sequences}, hold="1 MB", interval=1)
    site = Running(describe(file), "A")
    site.feed("a", None, until=100_000)
    deadline = time.monotonic() + 20
    while not site.full and site.arrivals["a"].next < 100_000:
        assert time.monotonic() < deadline
        site.round(0.0)
    assert site.arrivals["a"].next < 10_000
    waiting = [part for net in site.site.sites.values() for queue in net.waiting.values() for part in queue.values()]
    kept = site.outboxes["B"]
    assert site.held == sum(512 + p.table.nbytes for p in waiting) + kept.bytes + 256 * len(kept.kept)
    site.keeping.close()


@pytest.mark.parametrize("wide", [{"lateness": 1000}, {}])
def test_rows_that_wait_for_later_ones_do_not_keep_these_out(tmp_path: Path, wide: dict[str, int]) -> None:
    """More rows within the lateness, or within an interval, than there is room for: the site would wait for ever."""
    streams = {n: {"site": n.upper(), "time": "t", "window": 20, "schema": COLUMNS, **wide} for n in "ab"}
    file = described(tmp_path, files=False, streams=streams, hold="4 MB", interval=10 if wide else 1000)
    one = serve(file, "A")
    many = np.arange(60_000)
    fed: list[int] = []

    def feed() -> None:
        for first in (0, 100, 5000):
            one.feed("a", pa.table({"t": first + many // 600, "k": many, "id": many}))
            fed.append(first)

    feeding = threading.Thread(target=feed, daemon=True)
    feeding.start()
    feeding.join(10.0)
    one.stop()
    assert fed == [0, 100, 5000]


def test_rows_that_lie_in_many_intervals_take_more_room(site: Running) -> None:
    """A table for each of them is many times as large as a row."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    many = np.arange(5_000)
    site.arrivals["a"].feed(pa.table({"t": 10 * many, "k": many, "id": many}))
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    site.keeping.close()
    assert grown < site.arrivals["a"].bytes and site.arrivals["a"].bytes > 5_000 * 1_000
