"""What an engine saves and opens again: schemas, its shard's columns, the live rows' payload, the estimate of recall.

A snapshot's parts, in this order:

    schema            one per stream, of its input
    shard             an Arrow table of narrow columns (state/compact.py, state/narrow.py)
    payload           one Arrow table per stream that keeps columns: live rows only, oldest first
    shard of recall   as the first, if recall is estimated
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.engine.bind import Binding, bind
from windrow.engine.prepare import PAYLOAD_CHARGE, codes_in, fixed_cost, gains, number_bits
from windrow.errors import SnapshotError, WindrowError
from windrow.kernels import layout as at
from windrow.kernels.compact import read_slots
from windrow.quality.tracker import Tracker, exact_plan
from windrow.spec import Query
from windrow.state import snapshot as snapshots
from windrow.state.coding import times
from windrow.state.columns import empty_table
from windrow.state.compact import RISING, layout_digest
from windrow.state.compact import saved as saved_shard
from windrow.state.narrow import columns_of, table_of
from windrow.state.payload import Payload, taken
from windrow.state.rebuilt import restored
from windrow.state.shard import Shard

CODEC = "lz4"
PIECE_ROWS = 1 << 20  # rows of payload in one record batch


@dataclass(frozen=True)
class State:
    """The parts of an engine that a snapshot holds."""

    binding: Binding
    shard: Shard
    payloads: list[Payload]
    tracker: Tracker | None
    arrived: np.ndarray
    false: np.ndarray


# ---------------------------------------------------------------------------------------------- write


def parts(binding: Binding, shard: Shard, payloads: Sequence[Payload], tracker: Tracker | None) -> list[Any]:
    """The parts of a snapshot."""
    streams = range(binding.plan.streams)
    shards = saved_shard(shard, [_recodable(binding, s) for s in streams])
    found: list[Any] = [binding.schemas[name].serialize() for name in binding.query.names]
    found.append(_packed(shards.columns))
    for s in streams:
        if _keeps(binding, s):
            rows = read_slots(shard.words, shards.slots[s], np.array([at.ROW]))[0]
            found.append(snapshots.table_bytes(_live(payloads[s], rows), CODEC))
    if tracker is not None:
        found.append(_packed(saved_shard(tracker.shard, [frozenset[str]()] * binding.plan.streams).columns))
    return found


def _packed(columns: dict[str, np.ndarray]) -> pa.Buffer:
    return snapshots.table_bytes(table_of(columns, RISING), CODEC)


def _keeps(binding: Binding, stream: int) -> bool:
    return binding.keeps_payload and bool(binding.payload[stream])


def _live(payload: Payload, rows: np.ndarray) -> pa.Table:
    """Live rows in the order of their age, in pieces of a fixed size."""
    table = payload.table()
    if not payload.schema.names:
        return empty_table(payload.schema)
    pieces = [taken(table, rows[k : k + PIECE_ROWS]) for k in range(0, len(rows), PIECE_ROWS)]
    return pa.concat_tables(pieces) if pieces else empty_table(payload.schema)


def payload_bytes(binding: Binding, shard: Shard, stream: int) -> int:
    """Bytes of payload of a stream's residents, from what they are charged."""
    rows, charged = int(shard.stream_counter(at.ROWS)[stream]), int(shard.stream_counter(at.BYTES)[stream])
    return int((charged - rows * fixed_cost(binding)) / PAYLOAD_CHARGE)


def shrunk(shard: Shard, payloads: Sequence[Payload]) -> Shard:
    """The same shard in a block as large as its residents need, and their payload without dead rows."""
    streams = shard.plan.streams
    old = saved_shard(shard, [frozenset[str]()] * streams)
    new, first = restored(shard.plan, bool(shard.words[at.EMIT]), old.columns, [{}] * streams), 0
    for payload, slots in zip(payloads, old.slots, strict=False):
        rows = read_slots(shard.words, slots, np.array([at.ROW]))[0]
        payload.hold(_live(payload, rows), first, len(rows))
        first += len(rows)
    return new


def _recodable(binding: Binding, stream: int) -> frozenset[str]:
    """The columns of residents that can be computed again from their payload."""
    if not binding.keeps_payload:
        return frozenset()
    kept, spec, value = set(binding.payload[stream]), binding.query.streams[stream], binding.query.value
    found = {f"number{k}" for k, number in enumerate(binding.numbers[stream]) if number.column in kept}
    if binding.domain.kind != "rank" and spec.time in kept:
        found.add("time")
    for link, d in enumerate(binding.plan.classes[stream]):
        if d >= 0 and kept.issuperset(binding.directories[d].columns[stream]):
            found.add(f"code{link}")
    if value is not None and binding.plan.rule != at.GIVEN and dict(value.columns).get(spec.name) in kept:
        found.add("gain")
    return frozenset(found)


# ----------------------------------------------------------------------------------------------- read


@contextmanager
def read_strictly() -> Iterator[None]:
    """Turn whatever goes wrong while parts are read into a SnapshotError."""
    try:
        yield
    except SnapshotError:
        raise
    except (
        ValueError,
        KeyError,
        TypeError,
        IndexError,
        OverflowError,
        OSError,
        WindrowError,
        pa.ArrowException,
    ) as error:
        raise SnapshotError.impossible(f"{type(error).__name__}: {error}") from error


def check_layout(header: dict[str, Any]) -> None:
    """Refuse a snapshot whose columns mean something else."""
    if header["layout"] != layout_digest():
        raise SnapshotError(
            "the snapshot was written by a windrow with another layout: restore it with the windrow that wrote it"
        )


def opened(query: Query, header: dict[str, Any], buffers: list[pa.Buffer]) -> State:
    """The state that the parts of a snapshot hold."""
    schemas = {name: pa.ipc.read_schema(buffers.pop(0)) for name in query.names}
    columns = columns_of(snapshots.table_of(buffers.pop(0)))
    count_only = bool(header["count_only"])
    binding = replace(bind(query, schemas, bool(header["own_clock"])), keeps_payload=not count_only)
    binding = binding.with_whole_rows() if header["departures"] else binding
    binding = binding.with_oracle(len(columns.get("oracle.code", ())))
    plan = binding.plan
    tables = [_payload(binding, s, buffers) for s in range(plan.streams)]
    known = [_recoded(binding, s, tables[s]) for s in range(plan.streams)]
    shard = restored(plan, not count_only, columns, known)
    payloads, first = [Payload(s, binding.payload_schema(s)) for s in range(plan.streams)], 0
    for s, rows in enumerate(shard.stream_counter(at.ROWS).tolist()):
        if binding.keeps_payload:
            if _keeps(binding, s) and tables[s].num_rows != rows:
                raise SnapshotError.impossible(f"it has {tables[s].num_rows} rows of payload for {rows}")
            payloads[s].hold(tables[s], first, rows)
        first += rows
    arrived = np.array(header["arrived"], np.int64).reshape(plan.streams, 3)
    tracker = None
    if "tracker" in header:
        columns = columns_of(snapshots.table_of(buffers.pop(0)))
        exact = restored(exact_plan(plan, binding.recall_bytes), False, columns, [{}] * plan.streams)
        tracker = Tracker(plan, binding.recall_bytes, exact)
        tracker.resume(header["tracker"])
    false = np.array(header["false"], np.int64).reshape(len(binding.results))
    return State(binding, shard, payloads, tracker, arrived, false)


def _payload(binding: Binding, stream: int, buffers: list[pa.Buffer]) -> pa.Table:
    schema = binding.payload_schema(stream)
    if not _keeps(binding, stream):
        return empty_table(schema)
    table = snapshots.table_of(buffers.pop(0))
    if not table.schema.equals(schema):
        raise SnapshotError.impossible(f"the payload of {binding.query.names[stream]!r} has other columns")
    return table


def _recoded(binding: Binding, stream: int, table: pa.Table) -> dict[str, np.ndarray]:
    """The columns of residents that are computed from their payload."""
    found, spec = {}, binding.query.streams[stream]
    for name in _recodable(binding, stream):
        if name == "time":
            found[name] = times(table[spec.time], binding.domain, f"{spec.name}.{spec.time}")[0]
        elif name == "gain":
            found[name] = gains(binding, stream, table)
        elif name.startswith("code"):
            d = binding.plan.classes[stream, int(name.removeprefix("code"))]
            found[name] = codes_in(binding, stream, int(d), table)[0]
        else:
            number = binding.numbers[stream][int(name.removeprefix("number"))]
            found[name] = number_bits(binding, stream, number, table)[0]
    return found
