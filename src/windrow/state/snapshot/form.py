"""Snapshots: a shard's whole state as bytes, checked when it is read. Never pickle: a checkpoint must not run code.

magic, version   8 + 4 bytes
header           its length, then JSON: the layout's digest, the query, counters
parts            each its length, then bytes: Arrow schemas, and tables as Arrow IPC streams that are packed as a whole
checksum         CRC-32 of everything before it
"""

import json
import struct
import zlib
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from windrow.errors import SnapshotError

MAGIC = b"windrow\x00"
VERSION = 7
CODEC = "lz4"
MOST_TIMES = 255  # as many bytes as it takes itself is the most that a packed byte can stand for
FRAME = 1024  # and what the codec adds to a few bytes
_HEAD = struct.Struct("<8sIQ")
_LENGTH = struct.Struct("<Q")
_CHECK = struct.Struct("<I")


@dataclass(frozen=True)
class Snapshot:
    """The parts of a snapshot."""

    header: dict[str, Any]
    parts: list[pa.Buffer]


def write(header: dict[str, Any], parts: list[Any]) -> bytes:
    """One snapshot from a header and parts that support the buffer protocol."""
    return b"".join(written(header, parts))


def written(header: dict[str, Any], parts: list[Any]) -> list[Any]:
    """The same in pieces that are not yet joined."""
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    pieces: list[Any] = [_HEAD.pack(MAGIC, VERSION, len(text)), text, _LENGTH.pack(len(parts))]
    for part in parts:
        view = memoryview(part).cast("B")
        pieces += [_LENGTH.pack(view.nbytes), view]
    check = 0
    for piece in pieces:
        check = zlib.crc32(piece, check)
    return [*pieces, _CHECK.pack(check)]


def read(data: bytes) -> Snapshot:
    """The parts of a snapshot, or a SnapshotError that says what is wrong with it."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise SnapshotError(f"a snapshot is bytes, got {type(data).__name__}")
    view = memoryview(data)
    if len(view) < _HEAD.size + _LENGTH.size + _CHECK.size:
        raise SnapshotError(f"the snapshot is truncated: it has only {len(view)} bytes")
    magic, version, length = _HEAD.unpack_from(view)
    if magic != MAGIC:
        raise SnapshotError("this is not a windrow snapshot")
    if version != VERSION:
        raise SnapshotError(
            f"the snapshot has version {version}, this windrow reads version {VERSION}: restore it with the windrow "
            "that wrote it"
        )
    if zlib.crc32(view[: -_CHECK.size]) != _CHECK.unpack(view[-_CHECK.size :])[0]:
        raise SnapshotError("the snapshot is truncated or was altered: its checksum does not fit")
    try:
        return _parts(view, pa.py_buffer(data), length)
    except (ValueError, RecursionError, struct.error) as error:
        raise SnapshotError.impossible("its parts do not add up") from error


def _parts(view: memoryview, buffer: pa.Buffer, length: int) -> Snapshot:
    """Header and parts, whose lengths must add up to the whole."""
    at, end = _HEAD.size, len(view) - _CHECK.size
    header = json.loads(bytes(view[at : at + length]))
    if not isinstance(header, dict):
        raise ValueError("the header is no mapping")
    (count,) = _LENGTH.unpack_from(view, at + length)
    at += length + _LENGTH.size
    parts = []
    for _ in range(count):
        (size,) = _LENGTH.unpack_from(view, at)
        at += _LENGTH.size
        if size > end - at:
            raise ValueError("a part is longer than the rest")
        parts.append(buffer.slice(at, size))
        at += size
    if at != end:
        raise ValueError("something is left over")
    return Snapshot(header, parts)


def table_bytes(table: pa.Table) -> pa.Buffer:
    """A table as an Arrow IPC stream behind its number of bytes, packed as a whole while it is written.

    Arrow can pack each buffer of a table by itself, but then asks for as much memory as a buffer says that it needs.
    """
    sink = pa.BufferOutputStream()
    sink.write(_LENGTH.pack(0))
    with pa.CompressedOutputStream(sink, CODEC) as stream:
        with pa.ipc.new_stream(stream, table.schema, options=pa.ipc.IpcWriteOptions(use_threads=False)) as writer:
            writer.write_table(table)
        size = stream.tell()
    part = sink.getvalue()
    _LENGTH.pack_into(part, 0, size)
    return part


def table_of(part: pa.Buffer) -> pa.Table:
    """The table of a packed Arrow IPC stream, in memory of its own; every value has been looked at."""
    table = pa.ipc.open_stream(unpacked(part)).read_all()
    table.validate(full=True)
    return table


def unpacked(part: pa.Buffer) -> pa.Buffer:
    """The bytes of a packed part; no more memory is asked for than those at hand can stand for."""
    if part.size < _LENGTH.size:
        raise ValueError("a part is too short")
    (size,) = _LENGTH.unpack_from(part)
    rest = part.slice(_LENGTH.size)
    if size > MOST_TIMES * rest.size + FRAME:
        raise ValueError(f"a part of {part.size} bytes cannot hold {size}")
    with pa.CompressedInputStream(pa.BufferReader(rest), CODEC) as stream:
        plain = stream.read_buffer(size)
        if plain.size != size or stream.read(1):
            raise ValueError("a part has another size than it says")
    return plain
