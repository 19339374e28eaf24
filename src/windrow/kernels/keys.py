"""Keys of a directory as rows come and go: met when a row arrives, held while rows have them, kept for statistics."""

from typing import Any

from windrow.kernels import directory
from windrow.kernels.jit import inline
from windrow.kernels.memory import Memory
from windrow.kernels.places import chain, directory_at, held_at, key_at, pool_at, stream_at


@inline
def is_idle(m: Memory, d: int, key: int) -> bool:
    """Whether a key has no residents."""
    record = key_at(m, d, key)
    for stream in range(m.streams):
        if chain(record, stream).count > 0:
            return False
    return True


@inline
def unused(m: Memory, d: int, key: int, stream: int) -> bool:
    """Whether nothing is charged for a key: without residents or, in split memory, without residents of the stream."""
    if m.pools == 1:
        return is_idle(m, d, key)
    return chain(key_at(m, d, key), stream).count == 0


@inline
def charge_key(m: Memory, stream: int, d: int) -> int:
    """What the pool of a stream is charged for one more key in a directory.

    All directories have as many places for keys as the largest, and what a key is charged counts them all: so only a
    key more than the pool has in any other directory costs something.
    """
    if m.dirs == 1:
        return m.head.key_bytes
    pool = pool_at(m, stream_at(m, stream).pool)
    held = held_at(m, stream_at(m, stream).pool, d)
    m.w[held] += 1
    if m.w[held] <= pool.keys:
        return 0
    pool.keys += 1
    return m.head.key_bytes


@inline
def refund_key(m: Memory, stream: int, d: int) -> int:
    """What it is charged less for one that has no residents any more."""
    if m.dirs == 1:
        return m.head.key_bytes
    pool = pool_at(m, stream_at(m, stream).pool)
    m.w[held_at(m, stream_at(m, stream).pool, d)] -= 1
    for other in range(m.dirs):
        if m.w[held_at(m, stream_at(m, stream).pool, other)] >= pool.keys:
            return 0
    pool.keys -= 1
    return m.head.key_bytes


@inline
def meet_key(h: Any, m: Memory, d: int, code: int) -> int:
    """The key number of a code, new if need be; it is not known yet whether it will have residents."""
    key = directory.find(m, d, code)
    if key < 0:
        key = directory.add(m, d, code)
        h.opened(h, m, d, key, code)
        if m.keep_idle:
            directory_at(m, d).idle += 1
    return key


@inline
def hold_key(m: Memory, d: int, key: int) -> None:
    """Let a key that was met have residents from now on."""
    if m.keep_idle and is_idle(m, d, key):
        directory_at(m, d).idle -= 1


@inline
def open_key(h: Any, m: Memory, d: int, code: int) -> int:
    """The key number of a code that will have residents, new if need be."""
    key = meet_key(h, m, d, code)
    hold_key(m, d, key)
    return key


@inline
def pass_key(m: Memory, d: int, key: int) -> None:
    """Forget a key that was met in vain, unless it has residents or is kept for its frequencies."""
    if key >= 0 and not m.keep_idle and is_idle(m, d, key):
        directory.remove(m, d, key)


@inline
def close_key(m: Memory, d: int, key: int) -> None:
    """Forget a key that has no residents left, or keep it for its frequencies."""
    if not is_idle(m, d, key):
        return
    if m.keep_idle:
        directory_at(m, d).idle += 1
    else:
        directory.remove(m, d, key)
