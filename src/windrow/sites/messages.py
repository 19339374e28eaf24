"""Messages: what travels between sites, as bytes: a small JSON header and plain Arrow record batches, packed.

    magic, header length     4 + 4 bytes
    header                   JSON: version, plan, step, sender, receiver, interval, and for each part its channel, its
                             facts (few numbers), how many rows, and how many bytes
    parts                    record batches as Arrow IPC messages without their schema, packed as a whole

The plan tells the schema of every channel, so no schema travels, and a batch that does not fit it is refused. A message
is known by its step and its interval: a step sends one message to each site for every interval, in order, so a receiver
that has had a message of this step and interval has had this one.
"""

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import pyarrow as pa

from windrow.errors import InputError

MAGIC = b"wrs1"
VERSION = 1
CODEC = "zstd"
MOST_HEADER = 1 << 20
MOST_BYTES = 1 << 31  # of one part, unpacked
_HEAD = struct.Struct("<4sI")
_UNREADABLE = (
    *(ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError, MemoryError),
    *(struct.error, pa.ArrowException, OSError),
)


class Part(NamedTuple):
    """What a channel carries for one interval: rows, and a few numbers by name."""

    table: pa.Table
    facts: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True)
class Message:
    """What one step says to one site about one interval."""

    plan: str
    step: str
    sender: str
    receiver: str
    interval: int
    parts: dict[str, Part] = field(default_factory=dict)

    def encode(self, codec: str | None = CODEC) -> bytes:
        """The message as bytes."""
        bodies = [_packed(part.table, codec) for part in self.parts.values()]
        listed = [
            [channel, dict(part.facts), part.table.num_rows, size, len(body)]
            for (channel, part), (size, body) in zip(self.parts.items(), bodies, strict=True)
        ]
        head = [VERSION, self.plan, self.step, self.sender, self.receiver, self.interval, codec, listed]
        text = json.dumps(head, separators=(",", ":")).encode()
        return b"".join([_HEAD.pack(MAGIC, len(text)), text, *(body for _, body in bodies)])

    @classmethod
    def decode(cls, data: bytes | memoryview, schema_of: Callable[[str], pa.Schema], plan: str) -> "Message":
        """The message in some bytes, or an InputError that says why there is none; nothing in them can run code."""
        try:
            return cls._decode(memoryview(data), schema_of, plan)
        except _UNREADABLE as error:
            raise InputError(f"this is no message of plan {plan}: {error}") from None

    @staticmethod
    def plan_of(data: bytes | memoryview) -> str:
        """The plan that a message says it is of, or an InputError if this is no message."""
        try:
            view = memoryview(data)
            magic, length = _HEAD.unpack_from(view)
            if magic != MAGIC or length > MOST_HEADER:
                raise ValueError("it does not begin as one")
            return str(json.loads(bytes(view[_HEAD.size : _HEAD.size + length]))[1])
        except (ValueError, KeyError, IndexError, TypeError, struct.error, RecursionError) as error:
            raise InputError(f"this is no message of a plan: {error}") from None

    @classmethod
    def _decode(cls, view: memoryview, schema_of: Callable[[str], pa.Schema], plan: str) -> "Message":
        magic, length = _HEAD.unpack_from(view)
        if magic != MAGIC or length > MOST_HEADER:
            raise ValueError("it does not begin as one")
        at = _HEAD.size + length
        version, its_plan, step, sender, receiver, interval, codec, listed = json.loads(bytes(view[_HEAD.size : at]))
        if version != VERSION or its_plan != plan:
            raise ValueError(f"it is of version {version!r} and plan {its_plan!r}")
        if codec not in (None, CODEC):
            raise ValueError(f"it is packed with {codec!r}")
        parts = {}
        for channel, facts, rows, size, packed in listed:
            table = _unpacked(view[at : at + packed], schema_of(channel), rows, size, codec)
            parts[channel] = Part(table, {str(name): int(value) for name, value in facts.items()})
            at += packed
        if at != len(view):
            raise ValueError("something is left over")
        return cls(its_plan, str(step), str(sender), str(receiver), int(interval), parts)


def body_bytes(table: pa.Table) -> int:
    """How many bytes a part with a table adds to a message without rows."""
    step, ends = "a/b.step", ("A", "B", 1000)
    part, none = ({"a/b.k": Part(rows)} for rows in (table, table.slice(0, 0)))
    return len(Message("0" * 12, step, *ends, part).encode()) - len(Message("0" * 12, step, *ends, none).encode())


def _packed(table: pa.Table, codec: str | None) -> tuple[int, bytes]:
    """A table as one record batch, and how many bytes it has before it is packed; no rows are no bytes."""
    if not table.num_rows:
        return 0, b""
    (batch,) = table.combine_chunks().to_batches()
    plain = batch.serialize()
    return plain.size, plain.to_pybytes() if codec is None else pa.Codec(codec).compress(plain, asbytes=True)


def _unpacked(data: memoryview, schema: pa.Schema, rows: int, size: int, codec: str | None) -> pa.Table:
    if not rows:
        return pa.Table.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)
    if not 0 <= size <= MOST_BYTES:
        raise ValueError(f"a part says that it has {size} bytes")
    plain = pa.py_buffer(data) if codec is None else _read(data, size, codec)
    batch = pa.ipc.read_record_batch(plain, schema)
    batch.validate(full=True)
    if batch.num_rows != rows:
        raise ValueError(f"a part has {batch.num_rows} rows and says {rows}")
    return pa.Table.from_batches([batch])


def _read(data: memoryview, size: int, codec: str) -> pa.Buffer:
    """Unpack step by step, so that no more memory is taken than bytes come out."""
    with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(data)), codec) as stream:
        plain = stream.read_buffer(size)
        if plain.size != size or stream.read(1):
            raise ValueError("a part has another size than it says")
    return plain
