"""Releasing by constraints in an engine, row by row: what it emits and holds, in the terms of tests/kmon_twin.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from tests.kmon_twin import NO, UNKNOWN, YES, Arrival, Outcome, Step, taken

import windrow as wr
from windrow.kernels import layout as at
from windrow.kernels import live_columns
from windrow.spec import Query, split_reference
from windrow.spec.constraints import Constraint


def tables_of(query: Query, arrivals: Sequence[Arrival]) -> tuple[dict[str, pa.Table], list[tuple[str, int]]]:
    """Each stream's rows with their place in the order of all arrivals; and of each arrival its stream and row."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in query.names}
    places = []
    for place, (name, row) in enumerate(arrivals):
        places.append((name, len(rows[name])))
        rows[name].append({**row, "place": place})
    return {
        name: pa.Table.from_pylist(found, schema=_schema(query, name, found)) for name, found in rows.items()
    }, places


def _schema(query: Query, name: str, rows: list[dict[str, Any]]) -> pa.Schema:
    """Columns of rows, or those that the query reads where there are none."""
    stream = query.streams[query.names.index(name)]
    named = [split_reference(ref) for predicate in query.on for ref in predicate.columns]
    columns = [column for owner, column in named if owner == name] + [f.column for f in stream.where]
    columns += [stream.time] if stream.time is not None else []
    return pa.schema(
        [(column, pa.int64()) for column in dict.fromkeys([*(rows[0] if rows else []), *columns, "place"])]
    )


def engine_of(query: Query, constraints: Sequence[Constraint], **changes: Any) -> wr.Engine:
    """An engine of a query with declared constraints, which keeps the places of rows."""
    select = [(f"{name}.place", f"{name}_place") for name in query.names]
    return wr.Engine(query.with_(constraints=tuple(constraints) or None, select=select, **changes))


def matches_of(query: Query, table: pa.Table) -> Counter[tuple[int, ...]]:
    """Matches as the places of their rows."""
    columns = [table.column(k).to_pylist() for k in range(len(query.names))]
    return Counter(zip(*columns, strict=True))


def held(engine: wr.Engine) -> dict[int, int]:
    """Sequence numbers of all residents, with their status."""
    shard = engine.bound()[1]
    offsets = shard.plan.offsets()
    slots = live_columns.by_age(shard.words)
    words = np.array([at.Slot.seq, offsets[at.Head.status_off]])
    seqs, status = live_columns.read_slots(shard.words, slots, words)
    return dict(zip(seqs.tolist(), status.tolist(), strict=True))


STATUS = {at.UNKNOWN: UNKNOWN, at.YES: YES, at.NO: NO, at.VOID: NO}


def run(query: Query, constraints: Sequence[Constraint], arrivals: Iterable[Arrival]) -> Outcome:
    """What `kmon_twin.run` says, from an engine that collects after every row and spares none. Windows must be without
    end."""
    arrivals = list(arrivals)
    rows = taken(query, arrivals)
    none_spared = {"on_violation": wr.Lose(0.0)} if constraints else {}
    engine, tables = engine_of(query, constraints, **none_spared), tables_of(query, arrivals)[0]
    steps, place_of, before = [], dict[int, int](), set[int]()
    for place, row in enumerate(rows):
        name = query.names[row.stream]
        seq = _taken_by(engine)
        here = sum(one.stream == row.stream for one in rows[:place])
        out = engine.push({n: t.slice(here, 1) if n == name else t.slice(0, 0) for n, t in tables.items()})
        engine.bound()[1].collect()
        if _taken_by(engine) > seq:
            place_of[seq] = place
        resident = {place_of[number]: STATUS[status] for number, status in held(engine).items()}
        came = {place} if place in place_of.values() else set()
        gone = (before | came) - set(resident)
        found = matches_of(query, out)
        matches = tuple(tuple(rows[k] for k in match) for match in found.elements())
        steps.append(Step(matches, resident, dict.fromkeys(sorted(gone), "released"), frozenset(), not came))
        before = set(resident)
    return Outcome(query, tuple(rows), tuple(steps))


def _taken_by(engine: wr.Engine) -> int:
    return 0 if engine._shard is None else int(engine._shard.words[at.Head.seq])
