"""Packing for Spark. Can catch: pieces of wide rows that are too large for a worker, or for a blob; a listener to what
a plan prints that stays when two joins are written down at the same time."""

from __future__ import annotations

import sys
import threading

import pyarrow as pa
import pytest

from windrow.spark import pack
from windrow.spark.upstream import _overheard


def test_pieces_of_wide_rows_have_fewer_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pa.schema([("v", pa.string())])
    batch = pa.record_batch({"v": ["x" * 1000] * 100})
    monkeypatch.setattr(pack, "PIECE_BYTES", 250_000)
    pieces = list(pack._pieces([batch] * 10, schema))
    assert [piece.num_rows for piece in pieces] == [300, 300, 300, 100]


def test_two_who_listen_leave_what_was_there() -> None:
    before, over = sys.stdout, threading.Event()

    def listen_long() -> None:
        with _overheard():
            over.wait(5.0)

    def listen() -> None:
        with _overheard():
            other.start()
            other.join(0.2)  # it has put its own in by now, or waits

    first, other = threading.Thread(target=listen), threading.Thread(target=listen_long)
    first.start()
    first.join()
    over.set()
    other.join()
    found, sys.stdout = sys.stdout, before
    assert found is before
