"""The stages of an engine by themselves, for windrow's own parts: a push that only looks, or only stores.

    probe      who matches, among the present residents? Each row by itself; nothing changes
    partners   who has a match at all? The same without payload, and each row stops at its first match
    store      a push whose rows find no matches
    meet       a push whose rows are not stored: policies and the estimate of recall learn from them
    finish     the end of input: every resident expires

    probe(rows) and then store(rows) of one stream find and leave what push(rows) finds and leaves, as long as nothing
    is shed meanwhile and no policy learns from matches.

A row looks as it would in a push: without a key, without a time, behind the watermark or where a filter refuses it, it
has no matches. Windows, predicates and colliding codes of keys are judged by the functions that judge them in a push.
A stream without a time column numbers the rows of a look on from those that have arrived.

What a look leaves untouched: clock, watermark, sequence numbers, counters, statistics, credits, probe orders, the
estimate of recall. What `store` does not touch: matches. The rows count as arrivals, expire and shed others, and teach
statistics who arrives. Policies that learn from matches (GreedyDual, Age, the trials of Auto) see none of theirs, and
neither does the estimate of recall, whose exact join takes the same rows in the same way: recall is that of the rows
that probe.
"""

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.engine import taking
from windrow.engine.emit import Found, verified
from windrow.engine.engine import Engine
from windrow.engine.prepare import Rows
from windrow.engine.taking import Prepared
from windrow.errors import WindrowError

Counts = dict[str, np.ndarray]


def probe(engine: Engine, batches: Mapping[str, Any]) -> Any:
    """The matches of rows with the present residents, as `push` gives them; nothing changes.

    Rows of the same call do not meet each other. An engine that only counts says how many matches each row has, by
    stream.
    """
    rows = _coded(engine, batches)
    if engine.count_only:
        return _counted(engine, batches, rows, _count_all)
    tables = [_matches(part, mine) for part, mine in engine.routed(rows)]
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables)


def partners(engine: Engine, batches: Mapping[str, Any]) -> Counts:
    """For each row, by stream, whether it has a match among the present residents: of more streams than two, a complete
    one; of several joins, one in any of them. Nothing changes.

    No payload is gathered, but for the text of keys whose codes may collide; an engine that only counts holds none,
    and goes by codes, as it does in a push.
    """
    rows = _coded(engine, batches)
    return {name: found > 0 for name, found in _counted(engine, batches, rows, _count_first).items()}


def store(engine: Engine, batches: Mapping[str, Any], watermark: dt.datetime | int | None = None) -> None:
    """Take rows as `push` does, except that they look for no matches: none is found and none is counted."""
    rows, mark = engine.coded(batches, watermark)
    engine._take(engine.judged(rows, mark), mark, probing=False)


def meet(engine: Engine, batches: Mapping[str, Any], watermark: dt.datetime | int | None = None) -> Any:
    """The matches of rows with the present residents; all is as after a push, except that none of the rows is stored.

    They count as arrivals that expire at once. Of one engine; not of one with several shards.
    """
    rows, mark = engine.coded(batches, watermark)
    return taking.take(engine, engine.judged(rows, mark), mark, storing=False)


def finish(engine: Engine) -> None:
    """The end of input: the watermark goes to the end of time, and every resident expires, whatever its window.

    Rows that come later are all late.
    """
    engine._check({})
    engine._finish()


# -- looking ---------------------------------------------------------------------------------------------------------


def _coded(engine: Engine, batches: Mapping[str, Any]) -> list[Rows]:
    """Rows, of which it is known who is late; a query that is not bound yet has no residents to look at."""
    if engine.bound()[0].plan.demotes:
        raise WindrowError("a look sees residents alone, and this query has demoted rows: push the rows instead")
    return engine.judged(engine.coded(batches)[0])


def _matches(engine: Engine, rows: list[Rows]) -> Any:
    binding, shard = engine.bound()
    prepared = Prepared(engine, rows)
    found = Found(binding, prepared.payloads)
    for where, records in prepared.packed.pieces(len):
        for matches in shard.look(records, np.zeros(len(where), np.int64), emit=True):
            found.add(matches)
    return found.tables()


def _counted(engine: Engine, batches: Mapping[str, Any], rows: list[Rows], count: Any) -> Counts:
    """What is counted for each row, by stream, in all shards together."""
    found = [np.zeros(r.table.num_rows, np.int64) for r in rows]
    for part, mine in engine.routed(rows):
        prepared = Prepared(part, mine)
        for where, records in prepared.packed.pieces(len):
            prepared.packed.marks(where, prepared.bases, found, count(part, prepared, records))
    return {name: counts for name, counts in zip(engine.query.names, found, strict=True) if name in batches}


def _count_all(engine: Engine, prepared: Prepared, records: np.ndarray) -> np.ndarray:
    """How many matches each record has, by codes."""
    return _looked(engine, prepared, records, emit=False, first=False)[0]


def _count_first(engine: Engine, prepared: Prepared, records: np.ndarray) -> np.ndarray:
    """More than nothing for each record that has a match.

    Where codes may collide, the first match is looked at; only if it is none, all others are.
    """
    binding = engine.bound()[0]
    hashed = not engine.count_only and not all(d.exact or not d.probed for d in binding.directories)
    counts, matches = _looked(engine, prepared, records, emit=hashed, first=True)
    if not hashed:
        return counts
    true = _true(engine, prepared, counts, matches)
    doubted = np.flatnonzero((counts > 0) & (true == 0))
    if len(doubted):
        again = records.reshape(len(counts), -1)[doubted].ravel()
        true[doubted] = _true(engine, prepared, *_looked(engine, prepared, again, emit=True, first=False))
    return true


def _looked(
    engine: Engine, prepared: Prepared, records: np.ndarray, emit: bool, first: bool
) -> tuple[np.ndarray, list[np.ndarray]]:
    """How many matches each record has, and the matches if they are emitted."""
    counts = np.zeros(len(records) // prepared.packed.words, np.int64)
    return counts, list(engine.bound()[1].look(records, counts, emit, first))


def _true(engine: Engine, prepared: Prepared, counts: np.ndarray, matches: list[np.ndarray]) -> np.ndarray:
    """How many of its matches each record has in truth: matches come in the order of records."""
    truths: Iterator[np.ndarray] = (verified(engine.bound()[0], prepared.payloads, found) for found in matches)
    owner = np.repeat(np.arange(len(counts)), counts)
    return np.bincount(owner, np.concatenate([np.zeros(0), *truths]), len(counts)).astype(np.int64)
