"""What an engine saves and opens again: schemas, its shard's columns, the live rows' payload, the estimate of recall.

A snapshot's parts, in this order:

    schema            one per stream, of its input
    shard             an Arrow table of narrow columns (state/snapshot/reading.py, state/snapshot/narrow.py)
    payload           one Arrow table per stream that keeps columns: live rows only, oldest first
    shard of recall   as the first, if recall is estimated and its exact join has begun
    demoted rows      one Arrow table per stream, where what is released goes to disk (demoting.py)
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.engine import demoting
from windrow.engine.bind import Binding, bind
from windrow.engine.filters import passes
from windrow.engine.prepare import LARGEST_COST, PAYLOAD_CHARGE, codes_in, costs, fixed_cost, gains, number_bits
from windrow.errors import SnapshotError, WindrowError
from windrow.kernels import layout as at
from windrow.kernels.reasons import NAMES
from windrow.quality.tracker import Tracker, exact_plan
from windrow.spec import Query, query_changes
from windrow.state.coding import times
from windrow.state.columns import both, empty_table
from windrow.state.payload import Payload, taken
from windrow.state.shard import Shard
from windrow.state.sizes import depends_on_batch
from windrow.state.snapshot import form
from windrow.state.snapshot.narrow import Columns, columns_of, table_of
from windrow.state.snapshot.reading import RISING, layout_digest
from windrow.state.snapshot.reading import saved as saved_shard
from windrow.state.snapshot.restoring import is_bare, restored

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


def parts(state: State) -> list[Any]:
    """The parts of a snapshot."""
    binding, shard, payloads, tracker = state.binding, state.shard, state.payloads, state.tracker
    streams = range(binding.plan.streams)
    shards = saved_shard(shard, [_recodable(binding, s) for s in streams])
    found: list[Any] = [binding.schemas[name].serialize() for name in binding.query.names]
    found.append(_packed(shards.columns))
    for s in streams:
        if _keeps(binding, s):
            found.append(form.table_bytes(_live(payloads[s], shards.rows[s])))
    if tracker is not None and tracker.shard is not None:
        found.append(_packed(saved_shard(tracker.shard, [frozenset[str]()] * binding.plan.streams).columns))
    return found


def _packed(columns: dict[str, np.ndarray]) -> pa.Buffer:
    return form.table_bytes(table_of(columns, RISING))


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
    rows, charged = (
        int(shard.stream_counter(at.Stream.rows)[stream]),
        int(shard.stream_counter(at.Stream.bytes)[stream]),
    )
    return int((charged - rows * fixed_cost(binding)) / PAYLOAD_CHARGE)


def shrunk(shard: Shard, payloads: Sequence[Payload]) -> Shard:
    """The same shard in a block as large as its residents need, and their payload without dead rows."""
    streams = shard.plan.streams
    old = saved_shard(shard, [frozenset[str]()] * streams)
    new, first = restored(shard.plan, bool(shard.words[at.Head.emit]), old.columns, [{}] * streams), 0
    for payload, rows in zip(payloads, old.rows, strict=False):
        payload.hold(_live(payload, rows), first, len(rows))
        first += len(rows)
    return new


def _recodable(binding: Binding, stream: int) -> frozenset[str]:
    """The columns of residents that can be computed again from their payload."""
    if not binding.keeps_payload or binding.plan.releases:  # a resident that waits to be released has no payload
        return frozenset()
    kept, spec, value = set(binding.payload[stream]), binding.query.streams[stream], binding.query.value
    found = {f"number{k}" for k, number in enumerate(binding.numbers[stream]) if number.column in kept}
    if binding.domain.kind != "rank" and spec.time in kept:
        found.add("time")
    for link, d in enumerate(binding.plan.classes[stream]):
        if d >= 0 and kept.issuperset(binding.directories[d].columns[stream]):
            found.add(f"code{link}")
    if value is not None and not binding.plan.hooks.GIVEN and dict(value.columns).get(spec.name) in kept:
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
        RecursionError,
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


def check_same(old: Query, query: Query | None, header: dict[str, Any], recall: bool | None) -> None:
    """Refuse to go on with another query than the snapshot's, or with an estimate of recall that it has not."""
    if query is not None and (changed := query_changes(old, query)):
        raise SnapshotError(
            f"the snapshot is of another query: {'; '.join(changed)}; restore it without query=, or start anew"
        )
    if recall and not header.get("recall"):
        raise SnapshotError(
            "recall was off and is now on, but what was missed so far is not known: leave it off, or start anew"
        )


def check_header(header: dict[str, Any], parts: int, sharded: bool) -> None:
    """Refuse a header that has other fields than an engine writes, or fields of other kinds."""
    fields, rare = set(_FIELDS), set[str]()
    if header["bound"]:
        fields |= {"arrived"} if sharded else {"arrived", "false"}
        rare = set() if sharded else {"tracker", "demoted"}
    if not fields <= header.keys() <= fields | rare:
        raise ValueError("its header has other fields")
    switches = [header[name] for name in ("count_only", "recall", "departures", "own_clock", "bound")]
    if any(type(switch) is not bool for switch in switches) or (header["count_only"] and header["departures"]):
        raise ValueError("its header has switches that cannot be")
    if parts and not header["bound"]:
        raise ValueError("it has parts, and an engine that was never pushed has none")


_FIELDS = ("layout", "query", "count_only", "recall", "departures", "own_clock", "bound")


def opened(query: Query, header: dict[str, Any], buffers: list[pa.Buffer]) -> State:
    """The state that the parts of a snapshot hold."""
    schemas = {name: pa.ipc.read_schema(buffers.pop(0)) for name in query.names}
    columns = columns_of(form.table_of(buffers.pop(0)))
    count_only = header["count_only"]
    binding = replace(bind(query, schemas, header["own_clock"]), keeps_payload=not count_only)
    binding = binding.with_whole_rows() if header["departures"] else binding
    binding = binding.with_oracle(len(columns.get("oracle.code", ())))
    plan = binding.plan
    sizes = [len(columns[f"{s}.seq"]) for s in range(plan.streams)]
    tables = [_payload(binding, s, buffers, sizes[s]) for s in range(plan.streams)]
    _check_costs(binding, columns, tables)
    known = [_recoded(binding, s, tables[s], columns) for s in range(plan.streams)]
    shard = restored(plan, not count_only, columns, known)
    payloads, first = [Payload(s, binding.payload_schema(s)) for s in range(plan.streams)], 0
    for s, rows in enumerate(sizes):
        if binding.keeps_payload:
            payloads[s].hold(tables[s], first, rows)
        first += rows
    arrived = counts(header["arrived"]).reshape(plan.streams, 3)
    false = counts(header["false"] if query.named else [header["false"]])
    state = State(binding, shard, payloads, _tracker(binding, header, buffers), arrived, false)
    demoting.opened(binding, header.get("demoted"), shard, buffers)
    _check_counters(state)
    if buffers:
        raise ValueError("it has more parts than an engine writes")
    return state


def _tracker(binding: Binding, header: dict[str, Any], buffers: list[pa.Buffer]) -> Tracker | None:
    """The estimate of recall, if there is one."""
    if "tracker" not in header:
        return None
    if not header["recall"] or binding.query.memory is None or binding.query.on_full != "shed":
        raise ValueError("it has an estimate of recall that nobody asked for")
    exact = None
    if header["tracker"]["begun"]:
        columns, streams = columns_of(form.table_of(buffers.pop(0))), binding.plan.streams
        exact = restored(exact_plan(binding.plan, binding.recall_bytes), False, columns, [{}] * streams)
    tracker = Tracker(binding.plan, binding.recall_bytes, exact)
    tracker.resume(header["tracker"])
    return tracker


def counts(found: Any) -> np.ndarray:
    """Counters of a header, a list or a list of lists: whole numbers that are not negative."""
    counters = np.array(found, object)
    if any(type(count) is not int or not 0 <= count < at.HIGH for count in counters.flat):
        raise ValueError("it has counters that are none")
    return counters.astype(np.int64)


def _check_counters(state: State) -> None:
    """Every row that arrived is somewhere, once; and a shard has taken those that are neither late nor ignored."""
    shard, (arrived, late, ignored) = state.shard, state.arrived.T
    lines = {word: shard.stream_counter(word) for word in (at.Stream.rows, *NAMES.values(), at.Stream.rank)}
    taken = lines[at.Stream.rows] + lines[at.EXPIRED] + lines[at.RELEASED] + lines[at.SHED]
    if not np.array_equal(arrived, late + ignored + taken) or taken.sum() != shard.words[at.Head.seq]:
        raise ValueError("its counters do not add up")
    if (lines[at.Stream.rank] < taken).any() or (
        lines[at.Stream.rank] > arrived - late
    ).any():  # ignored rows may have had a time
        raise ValueError("its counters do not add up")
    if state.false.shape != (len(state.binding.results),) or (state.false > shard.matched_by_join).any():
        raise ValueError("it has more false matches than matches")
    if shard.words[at.Head.sample_share] != 0:
        raise ValueError("its rows are a sample, as only an estimate of recall has them")
    if state.tracker is not None and not state.tracker.begun and lines[at.SHED].any():
        raise ValueError("it has shed rows before the estimate of recall had begun")


def _check_costs(binding: Binding, columns: Columns, tables: list[pa.Table]) -> None:
    """Residents are charged for what they hold."""
    for s, table in enumerate(tables):
        cost = columns[f"{s}.cost"]
        expected = costs(binding, s, table) if _keeps(binding, s) else np.full(len(cost), fixed_cost(binding))
        if binding.plan.releases:
            bare = is_bare(binding.plan, columns[f"{s}.status"], cost)
            expected = np.where(bare, binding.plan.row_bytes(), expected)
        if np.array_equal(cost, expected):
            continue
        doubtful = expected > LARGEST_COST // 2  # cut there, maybe under another policy
        if any(depends_on_batch(type_) for type_ in table.schema.types):
            doubtful = cost >= fixed_cost(binding)
        if len(cost) != len(expected) or not (doubtful | (cost == expected)).all():
            raise ValueError(f"the rows of {binding.query.names[s]!r} cost something else")


def _payload(binding: Binding, stream: int, buffers: list[pa.Buffer], rows: int) -> pa.Table:
    schema = binding.payload_schema(stream)
    if not _keeps(binding, stream):
        return empty_table(schema)
    table = form.table_of(buffers.pop(0))
    if not table.schema.equals(schema):
        raise ValueError(f"the payload of {binding.query.names[stream]!r} has other columns")
    if table.num_rows != rows:
        raise ValueError(f"it has {table.num_rows} rows of payload for {rows}")
    return table


def _recoded(binding: Binding, stream: int, table: pa.Table, columns: Columns) -> dict[str, np.ndarray]:
    """The columns of residents that are computed from their payload; rows that no engine keeps are refused."""
    found, spec, numbers = {}, binding.query.streams[stream], binding.numbers[stream]
    for name in _recodable(binding, stream):
        join: int | None = 0
        if name == "gain":
            found[name], valid = gains(binding, stream, table), None
        elif name == "time":
            found[name], valid = times(table[spec.time], binding.domain, f"{spec.name}.{spec.time}")
            join = None
        elif name.startswith("code"):
            d = int(binding.plan.classes[stream, int(name.removeprefix("code"))])
            found[name], valid = codes_in(binding, stream, d, table)
            join = binding.plan.join_of_directory(d)
        else:
            number = numbers[int(name.removeprefix("number"))]
            found[name], valid = number_bits(binding, stream, number, table)
            join = number.join
            if number.refuses_nan:
                valid = both(valid, ~np.isnan(found[name].view(np.float64)))
        if valid is not None and not valid.all():
            _check_absent(binding, stream, valid, columns, join)
    for condition in spec.where:
        if _keeps(binding, stream) and condition.column in binding.payload[stream]:
            fine = passes(condition, table[condition.column], spec.name)
            if binding.plan.releases:
                fine |= columns[f"{stream}.status"] >= at.NO
            if not fine.all():
                raise ValueError(f"it has rows of {spec.name!r} that its filter leaves out")
    return found


def _check_absent(binding: Binding, stream: int, valid: np.ndarray, columns: Columns, join: int | None) -> None:
    """Residents have a time and, in the joins that they can match in, all keys and numbers."""
    if join is not None and binding.plan.joins is not None:
        bits = columns[f"{stream}.number0"]
        if len(bits) == len(valid) and not (bits[~valid] >> join & 1).any():
            return
    raise ValueError(f"it has rows of {binding.query.names[stream]!r} without a key, a number or a time")
