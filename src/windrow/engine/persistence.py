"""Persistence: an engine is saved as bytes (snapshot, restore), or left in a folder of this machine (park, attach).

A snapshot is what is alive, checked when it is read, and can go anywhere; a parked engine is its memory as it stands,
for the same windrow on the same machine. Both have a header that says how the engine was made, and both go on as if
nothing had happened.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windrow.engine import parking, snapshots
from windrow.errors import SpecError, WindrowError
from windrow.spec import OnViolation, Query
from windrow.state.snapshot import form

if TYPE_CHECKING:
    from windrow.engine.engine import Engine


def written(engine: Engine) -> list[Any]:
    """The bytes of a snapshot, in parts that support the buffer protocol."""
    header = _whole(engine, "snapshot")
    parts: list[Any] = []
    if header["bound"]:
        more, parts = engine._saved()
        header |= more
    return form.written(header, parts)


def in_pieces(engine: Engine, most_bytes: int) -> list[bytes]:
    """The bytes of a snapshot in pieces of at most so many, all but the last of just so many."""
    if most_bytes < 1:
        raise SpecError(f"snapshot_pieces: a piece has at least one byte, got most_bytes={most_bytes}")
    pieces, piece = [], bytearray()
    for part in written(engine):
        view = memoryview(part).cast("B")
        while len(view):
            taken = min(len(view), most_bytes - len(piece))
            piece += view[:taken]
            view = view[taken:]
            if len(piece) == most_bytes:
                pieces.append(bytes(piece))
                piece.clear()
    return [*pieces, bytes(piece)] if piece else pieces


def restored(
    made: type[Engine], data: Any, query: Query | None, recall: bool | None, own_clock: bool | None,
    demoting: OnViolation | None = None,
) -> Engine:  # fmt: skip
    """The engine of a snapshot (`Engine.restore`); `demoting` tells where demoted rows go, if the query does not."""
    snap = form.read(data)
    header = snap.header
    with snapshots.read_strictly():
        snapshots.check_layout(header)
    engine = _made_as(made, header, query, recall, demoting)
    with snapshots.read_strictly():
        snapshots.check_header(header, len(snap.parts), sharded=type(engine) is not made)
        if header["bound"]:
            engine._fill(header, list(snap.parts))
    _go_on(engine, query, recall, own_clock)
    return engine


def park(engine: Engine, folder: Path, key: str) -> None:
    """Leave an engine in a folder (`Engine.park`)."""
    header = _whole(engine, "park")
    if header["bound"] and engine.bound()[0].plan.demotes:
        raise WindrowError("park: demoted rows lie in files of their own, which do not outlive the engine: snapshot it")
    parking.prepared(folder)
    if header["bound"]:
        header |= engine._leave(folder, key)
    parking.sealed(folder, header, key)
    engine._parked, engine._shard, engine._tracker, engine._payloads = True, None, None, []


def attached(
    made: type[Engine], folder: Path, key: str, query: Query | None, recall: bool | None, own_clock: bool | None
) -> Engine:
    """The engine of a folder (`Engine.attach`)."""
    header = parking.claimed(folder, key)
    engine = _made_as(made, header, query, recall)
    if header["bound"]:
        with snapshots.read_strictly():
            engine._take_up(folder, header, key)
    _go_on(engine, query, recall, own_clock)
    return engine


def _whole(engine: Engine, what: str) -> dict[str, Any]:
    """How an engine was made; refuses to leave a state in which something is missing."""
    engine._check({})
    if engine._departures is not None and engine._departures.pending:
        raise WindrowError(f"{what}: rows that were lost are waiting to be asked for: call departed() first")
    return engine._header()


def _made_as(
    made: type[Engine], header: dict[str, Any], query: Query | None, recall: bool | None,
    demoting: OnViolation | None = None,
) -> Engine:  # fmt: skip
    """An engine without state, made as a header says, which must fit what is asked for."""
    with snapshots.read_strictly():
        old = _query(header["query"])
    snapshots.check_same(old, query, header, recall)
    if query is not None and query.demotes is not None:
        demoting = query.on_violation
    if demoting is not None:  # the rows that it holds are written when they are read: to where they belong from now on
        old = old.with_(on_violation=demoting)
    engine = made.__new__(made, old)
    engine.query, engine._interrupted, engine._parked, engine._ground = old, False, False, None
    engine._departures, engine._oracle, engine._binding, engine._shard = None, {}, None, None
    engine._told = set()
    with snapshots.read_strictly():
        engine.count_only, engine._tracks = header["count_only"], header["recall"]
        engine._keeps_departures, engine.own_clock = header["departures"], header["own_clock"]
    return engine


@lru_cache(maxsize=32)  # what is restored again and again has the same query, which is then bound once (bind.py)
def _query(text: str) -> Query:
    return Query.from_json(text)


def _go_on(engine: Engine, query: Query | None, recall: bool | None, own_clock: bool | None) -> None:
    """Go on under what may differ from how the engine was left."""
    if recall is False:
        engine._track_no_longer()
    if own_clock is not None:
        engine._go_by(own_clock)
    if query is not None and query != engine.query:
        engine._change(query)
