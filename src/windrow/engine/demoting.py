"""Demoted rows of an engine: where they are kept, and how a snapshot holds them (state/demoted.py has them).

A snapshot holds the rows themselves, one table for each stream: their words, then their payload; their filter, in which
rows may be that are gone, so that what is restored calls for the same rows; and in its header how they lie in runs, and
what was counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from windrow.kernels import layout as at
from windrow.kernels.release.filter import PLACES
from windrow.state.demoted import FEW_STALE, Demoted, Run, filter_of, joined
from windrow.state.parts import LEAST_FILTER, view
from windrow.state.shard import Shard
from windrow.state.snapshot import form

if TYPE_CHECKING:
    from windrow.engine.bind import Binding

FIELDS = {"runs", "found", "dropped", "matched", "filter"}


def demoted_of(binding: Binding) -> Demoted | None:
    """An empty store for what a bound query demotes; None if it does not."""
    how = binding.query.demotes
    if how is None or not binding.plan.demotes:
        return None
    return Demoted(binding.plan, how.folder, how.disk)


def _width(binding: Binding) -> int:
    return at.D_CODES + binding.plan.links + int(binding.plan.numbers.shape[1])


def _schema(binding: Binding, stream: int) -> pa.Schema:
    """The columns of a stream's demoted rows in a snapshot."""
    words = [pa.field(str(k), pa.int64()) for k in range(_width(binding))]
    payload = binding.payload_schema(stream) if binding.keeps_payload else pa.schema([])
    return pa.schema([*words, *(field.with_name(f"payload {field.name}") for field in payload)])


def saved(binding: Binding, shard: Shard) -> tuple[dict[str, Any], list[pa.Buffer]]:
    """What a snapshot holds: a part of its header, a table for each stream, and the filter."""
    demoted = shard.demoted
    assert demoted is not None
    header = {
        "runs": [[[len(run), run.disk_bytes > 0] for run in runs] for runs in demoted.runs],
        "found": demoted.found.tolist(),
        "dropped": demoted.dropped.tolist(),
        "matched": demoted.matched,
        "filter": len(filter_of(shard.words)),
    }
    tables = []
    for stream, runs in enumerate(demoted.runs):
        schema = _schema(binding, stream)
        if not runs:
            tables.append(form.table_bytes(schema.empty_table()))
            continue
        whole = joined(runs)
        payload = [] if whole.table is None else whole.table.columns
        tables.append(form.table_bytes(pa.Table.from_arrays([*map(pa.array, whole.columns), *payload], schema=schema)))
    tables.append(form.table_bytes(pa.table({"filter": filter_of(shard.words)})))
    return header, tables


def opened(binding: Binding, header: Any, shard: Shard, buffers: list[pa.Buffer]) -> None:
    """Give a shard the demoted rows of a snapshot. Raises ValueError if they are none."""
    demoted = demoted_of(binding)
    if (demoted is None) != (header is None):
        raise ValueError("it has demoted rows where nothing is demoted, or none where it is")
    if demoted is None:
        return
    if not isinstance(header, dict) or header.keys() != FIELDS or len(header["runs"]) != len(demoted.runs):
        raise ValueError("it does not say how its demoted rows lie")
    used = int(shard.words[at.Head.filter_used])
    for stream, sizes in enumerate(header["runs"]):
        table = form.table_of(buffers.pop(0))
        if not table.schema.equals(_schema(binding, stream)):
            raise ValueError(f"the demoted rows of {binding.query.names[stream]!r} have other columns")
        demoted.resume(stream, _runs(binding, stream, table, sizes, shard), [bool(on_disk) for _, on_disk in sizes])
    demoted.count(_counts(header["found"], len(demoted.runs)), _counts(header["dropped"], len(demoted.runs)))
    demoted.matched = int(_counts([header["matched"]], 1)[0])
    rows, ever = demoted.rows, shard.stream_counter(at.Stream.demoted)
    if (rows + demoted.dropped > ever).any() or (ever > shard.stream_counter(at.RELEASED)).any():
        raise ValueError("it has more demoted rows than were released")
    shard.keep_demoted(demoted, _filter(form.table_of(buffers.pop(0)), header["filter"], used, demoted.entries))


def _filter(table: pa.Table, size: Any, used: int, entries: int) -> np.ndarray:
    """The words of a filter from outside: in a full one kernels would look for a free place for long."""
    if table.schema != pa.schema([("filter", pa.int64())]) or table.column(0).null_count or table.num_rows != size:
        raise ValueError("it has no filter of its demoted rows")
    words = np.ascontiguousarray(table.column(0).to_numpy())
    full = size < LEAST_FILTER or used > (PLACES - 1) * size or used > 2 * entries + FEW_STALE
    if full or np.count_nonzero(words.view(np.uint16)) != used:
        raise ValueError("its filter has other rows")
    return words


def _counts(found: Any, size: int) -> np.ndarray:
    if not isinstance(found, list) or len(found) != size:
        raise ValueError("it does not say how many demoted rows were found")
    if any(type(count) is not int or not 0 <= count < at.HIGH for count in found):
        raise ValueError("it has counters that are none")
    return np.array(found, np.int64)


def _runs(binding: Binding, stream: int, table: pa.Table, sizes: Any, shard: Shard) -> list[Run]:
    """The runs of a stream, from a table that comes from outside: what kernels use as a place is checked."""
    if any(column.null_count for column in table.columns[: _width(binding)]):
        raise ValueError("its demoted rows lack words")
    columns = [column.to_numpy().copy() for column in table.columns[: _width(binding)]]
    seq, gone, cost = columns[at.D_SEQ], columns[at.D_GONE], columns[at.D_COST]
    fine = (columns[at.D_STREAM] == stream) & (seq >= 0) & (seq < gone) & (gone <= shard.words[at.Head.seq])
    fine &= (cost >= 0) & (cost < at.HIGH >> at.STREAM_BITS) & (columns[at.D_TIME] > at.LOW) & (columns[at.D_ROW] >= 0)
    line = view(shard.words, at.Head.streams_at, shard.plan.streams, at.STREAM_SIZE)[stream]
    fine &= (columns[at.D_RANK] >= 0) & (columns[at.D_RANK] < max(int(line[at.Stream.rank]), 1))
    if not fine.all() or len(np.unique(seq)) != len(seq):
        raise ValueError(f"it has demoted rows of {binding.query.names[stream]!r} that cannot be")
    lengths = [int(size) for size, _ in sizes]
    if any(length < 1 for length in lengths) or sum(lengths) != table.num_rows:
        raise ValueError("its demoted rows do not add up")
    payload = None
    if binding.keeps_payload and binding.payload[stream]:
        payload = pa.Table.from_arrays(table.columns[_width(binding) :], schema=binding.payload_schema(stream))
    found, first = [], 0
    for length in lengths:
        words = [column[first : first + length] for column in columns]
        mine = pa.array(np.arange(first, first + length))
        found.append(Run(words, None if payload is None else payload.take(mine)))  # not a slice: files would have all
        first += length
    return found
