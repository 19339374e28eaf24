"""Taking: coded rows go through the stages of an engine, and come out as matches.

    prepare   the rows in the order in which they are taken, and what their payload rows will be
    drive     piece by piece through the shard, which probes and stores; the estimate of recall sees what the shard has
              seen; matches are gathered on the way
    settle    who was lost is remembered, arrivals are counted, the payload of new residents is stored
    emit      the matches as tables

Everything that can be wrong with rows was found when they were coded. A push that is interrupted between preparing and
emitting leaves a state that is not whole, and the engine then refuses to go on; one that finds memory full where
nothing may be shed gives back what was there before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from windrow.engine.emit import Found
from windrow.engine.missed_matches import warn
from windrow.engine.prepare import Packed, Rows
from windrow.errors import MemoryFull
from windrow.kernels import layout as at
from windrow.kernels.rows import still_there
from windrow.state.renumbering import followed
from windrow.state.shard import Full, Shard

if TYPE_CHECKING:
    from windrow.engine.engine import Engine

NOBODY = np.zeros((0, at.GONE_SIZE), np.int64)


class Prepared:
    """Rows in the order in which they are taken, and the payloads that their matches are gathered from."""

    def __init__(self, engine: Engine, rows: list[Rows]) -> None:
        self.rows = rows
        self.bases = [payload.rows for payload in engine._payloads]
        self.packed = Packed(engine.bound()[0], rows, self.bases)
        both = zip(engine._payloads, rows, strict=True)
        self.payloads = [payload.table(r.table.select(payload.schema.names)) for payload, r in both]


def take(engine: Engine, rows: list[Rows], mark: int, probing: bool = True, storing: bool = True) -> Any:
    """Take rows of which it is known who is late, and a watermark: the matches, or None if the engine only counts.

    If they are not probing, the rows are stored and find no matches; if they are not to be stored, they only probe.
    """
    prepared = Prepared(engine, rows)
    engine._interrupted = True
    found = _drive(engine, prepared, mark, probing, storing)
    tables = found.tables()
    engine._false += found.false
    engine.bound()[1].settle_demoted(None if engine.count_only else prepared.payloads)
    _count(engine, prepared)
    if not storing:
        engine.bound()[1].pass_by(np.array([int(r.keep.sum()) for r in rows]))
    _keep(engine, prepared)
    _settle(engine, len(prepared.packed.order))
    engine._interrupted = False
    return None if engine.count_only else tables


# -- probe and store -------------------------------------------------------------------------------------------------


def _drive(engine: Engine, prepared: Prepared, mark: int, probing: bool, storing: bool) -> Found:
    """Raise the watermark to a mark, and drive the shard through the rows."""
    binding, shard = engine.bound()
    packed, clock, seq = prepared.packed, int(shard.words[at.Head.clock]), int(shard.words[at.Head.seq])
    at_risk = binding.plan.fail_when_full and shard.fitting(*packed.charges()) < len(packed.stream)
    before = shard.words.copy() if at_risk else None
    demoted = shard.demoted.copied() if at_risk and shard.demoted is not None else shard.demoted
    engine._raise_watermark(mark)
    found, deletions = Found(binding, prepared.payloads), np.zeros_like(engine._deletions)
    moved = None
    if shard.demoted is not None:
        shard.demoted.house = found.house
    try:
        for where, records in packed.pieces(lambda coming: _ahead(engine, shard, packed, coming)):
            _get_ready(engine, shard, len(where))
            if not storing:
                live = records[at.R_LIVE :: packed.words]
                live[live > 0] = at.PROBE_ONLY
            for matches in shard.advance(records, probing):
                found.add(matches)
            now = shard.moved()
            if now is not None:
                packed.slot[:] = followed(packed.slot, now)
                moved = now if moved is None else followed(moved, now)
            packed.slot[where] = records[at.R_SLOT :: packed.words]
            _count_deletions(packed, where, records, deletions)
            _track(engine, shard, records, probing)
    except Full:
        assert before is not None
        shard.hold(before)
        shard.demoted = demoted
        shard.moved()
        engine._interrupted = False
        raise MemoryFull(
            f"the join needs more than its memory of {binding.query.memory}: nothing of this push was taken; "
            "raise memory, or let on_full='shed' choose what to lose"
        ) from None
    if moved is not None:
        engine._follow(moved)
    engine._deletions += deletions
    _note_departures(engine, prepared, clock, seq)
    return found


def _count_deletions(packed: Packed, where: np.ndarray, records: np.ndarray, counts: np.ndarray) -> None:
    """Count the deletions of a piece: those that found a resident, and those that found none."""
    mine = np.flatnonzero(packed.head[2][where] <= at.DELETES)
    if len(mine):
        in_vain = records[at.R_LIVE :: packed.words][mine] > at.DELETES
        np.add.at(counts, (packed.stream[where[mine]], in_vain.astype(np.int64)), 1)


def _ahead(engine: Engine, shard: Shard, packed: Packed, coming: np.ndarray) -> int:
    """How many of the coming rows may be taken before the estimate of recall has to begin, or to catch up; or before
    monitors look again at what is released."""
    tracker, most = engine._tracker, min(len(coming), shard.plan.most_at_once)
    if tracker is None or tracker.has_room(shard, most, packed.dearest):
        return most
    return tracker.allow(shard, *packed.charges(coming[:most]))


def _get_ready(engine: Engine, shard: Shard, rows: int) -> None:
    """Before the shard takes so many rows: let the estimate of recall begin, or its sample, if it has to now."""
    if engine._tracker is not None:
        engine._tracker.get_ready(rows, shard)
        shard.note(engine._tracker.samples)


def _track(engine: Engine, shard: Shard, records: np.ndarray, probing: bool) -> None:
    """Let the estimate of recall see what the shard has just taken, and whom it has shed."""
    tracker = engine._tracker
    if tracker is None:
        return
    gone = shard.gone() if tracker.samples or engine._departures is not None else NOBODY
    if engine._departures is not None:
        engine._gone.append(gone)
    tracker.watch(records, shard, gone, probing)
    shard.note(tracker.samples)


# -- settle ----------------------------------------------------------------------------------------------------------


def _note_departures(engine: Engine, prepared: Prepared, clock: int, seq: int) -> None:
    """Remember who was lost among rows that came when clock and sequence number stood at these."""
    departures, shard = engine._departures, engine.bound()[1]
    if departures is None:
        return
    departures.add_late(prepared.rows, clock, seq)
    departures.add_shed(np.concatenate([*engine._gone, shard.gone()]), prepared.payloads)
    engine._gone.clear()
    if shard.stream_counter(at.SHED).any():
        departures.add_disordered(prepared.rows, prepared.packed, prepared.bases, clock, seq, shard.plan.together)


def _count(engine: Engine, prepared: Prepared) -> None:
    """Count who came, who was late and who can never match."""
    for s, r in enumerate(prepared.rows):
        engine._arrived[s] += len(r.time), r.late, r.ignored


def _keep(engine: Engine, prepared: Prepared) -> None:
    """Store the payload of the rows that have become residents."""
    if engine.count_only:
        return
    shard, packed = engine.bound()[1], prepared.packed
    residents = shard.stream_counter(at.Stream.rows)
    there = still_there(shard.words, packed.slot, packed.stream, packed.row)
    for s, payload in enumerate(engine._payloads):
        mine = np.flatnonzero(there & (packed.stream == s))
        if len(mine):
            table: pa.Table = prepared.rows[s].table.select(payload.schema.names)
            payload.admit(shard.words, table, packed.row[mine] - payload.rows, packed.slot[mine])
        if payload.chunks:
            engine._tidy(s, int(residents[s]))
    engine._shrink()


def _settle(engine: Engine, arrivals: int) -> None:
    """Let the estimate of recall follow the watermark, and what is recent fade; say of each constraint once that it is
    broken."""
    shard, tracker = engine.bound()[1], engine._tracker
    if shard.plan.releases:
        warn(shard, engine._told)
    if tracker is not None:
        tracker.raise_watermark(int(shard.words[at.Head.watermark]))
        tracker.settle(shard.matched - int(engine._false.sum()), arrivals)
