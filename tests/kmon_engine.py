"""Releasing by constraints in an engine, row by row: what it emits and holds, in the terms of tests/kmon_twin.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from tests.kmon_twin import Arrival

import windrow as wr
from windrow.kernels import layout as at
from windrow.kernels import live_columns
from windrow.spec import Query
from windrow.spec.constraints import Constraint


def tables_of(query: Query, arrivals: Sequence[Arrival]) -> tuple[dict[str, pa.Table], list[tuple[str, int]]]:
    """Each stream's rows with their place in the order of all arrivals; and of each arrival its stream and row."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in query.names}
    places = []
    for place, (name, row) in enumerate(arrivals):
        places.append((name, len(rows[name])))
        rows[name].append({**row, "place": place})
    columns = list(arrivals[0][1]) if arrivals else ["t"]
    schema = pa.schema([(column, pa.int64()) for column in (*columns, "place")])
    return {name: pa.Table.from_pylist(found, schema=schema) for name, found in rows.items()}, places


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
