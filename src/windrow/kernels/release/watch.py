"""Watching promises: how far rows that belong together came apart, measured as they come.

    Unique      a row of a key that had come before                                         any is a violation
    Integrity   child rows from a parent up to its child: the oldest parent of the child's key has waited longest. If
                more than that key is compared, it need not be a parent: a declared promise is broken when a match of
                both is missed (sparing.py)
    Clustered   rows with other values since the first with these
    Ordered     rows from the first larger value, up to and including this one; by the steps that are kept, exactly
                where none was forgotten between, else at least and at most

A promise that is used and broken is counted. Where promises were found by watching it rests at once, and covers that
follow from it do not hold any longer; state/monitor.py decides when it is used again.

Keys without residents are forgotten, and so is what came under them. A small share of the rows that could be released
is therefore spared until its window ends: such a resident is No, and tells what comes after all.
"""

from typing import Any

from windrow.kernels.distances import apart
from windrow.kernels.jit import inline, inner
from windrow.kernels.layout import BY_INTEGRITY, BY_UNIQUE, HIGH, STEPS, Ordered, Promise
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.places import (
    before_at,
    chain,
    key_at,
    ordered_at,
    promise_at,
    slot_at,
    step_at,
    stream_at,
    watched_at,
)


@inline
def measure(m: Memory, promise: Promise, distance: int) -> None:
    """Note a distance, and whether it breaks its promise."""
    measure_between(m, promise, distance, distance)


@inline
def measure_between(m: Memory, promise: Promise, least: int, most: int) -> None:
    """Note a distance that is known to lie between two: monitors are cautious, and a declared promise is broken for
    certain or not."""
    promise.measured += 1
    promise.seen = max(promise.seen, most)
    distance = most if m.head.monitored else least
    if promise.is_used != 0 and (distance > promise.k or promise.kind == BY_UNIQUE):
        promise.violations += 1
        promise.since = stream_at(m, promise.other if promise.kind == BY_INTEGRITY else promise.stream).rank
        if m.head.monitored:
            promise.is_used = 0
            m.head.covers_hold = 0 if promise.kind == BY_UNIQUE else m.head.covers_hold


@inline
def gap(later: int, earlier: int) -> int:
    """How far a time lies behind another, as a number that is not negative."""
    return min(HIGH, int(apart(later, earlier) >> 1) * 2) if later > earlier else 0


@inner
def measure_key(words: Any, stream: int, link: int, d: int, key: int, came: int, time: int, least: int) -> None:
    """Let a row of a stream under a key tell; `came` and `least` are what was known of the key before it came."""
    m = memory_of(words)
    watched, rank = watched_at(m, stream, link), stream_at(m, stream).rank
    if came > 0:
        if watched.unique >= 0:
            measure(m, promise_at(m, watched.unique), 1)
        if watched.clustered >= 0:
            promise = promise_at(m, watched.clustered)
            measure(m, promise, gap(time, least) if promise.in_time else rank - 1 - came)
    for k in range(watched.first_integrity, watched.after_integrity):
        promise = promise_at(m, k)
        parent = chain(key_at(m, d, key), promise.stream).head
        if parent >= 0:
            waited = gap(time, slot_at(m, parent).time)
            if not promise.in_time:
                waited = rank - m.w[before_at(m, parent, promise.place)]
            measure_between(m, promise, waited if promise.plain else 0, waited)


@inline
def first_above(m: Memory, k: int, value: int) -> int:
    """The first step of an ordered column that lies above a value."""
    low, high = 0, ordered_at(m, k).used
    while low < high:
        mid = (low + high) >> 1
        if m.w[step_at(m, k, mid) + 1] > value:
            high = mid
        else:
            low = mid + 1
    return low


@inner
def measure_order(words: Any, line: Ordered, k: int, value: int, now: int) -> None:
    """Let a value that lies below an earlier one tell how long ago that came, at most."""
    m = memory_of(words)
    low = first_above(m, k, value)
    promise = promise_at(m, line.promise)
    first = m.w[step_at(m, k, low)]
    least = gap(now, first) if promise.in_time else now - first
    most = least
    if low > 0 and m.w[step_at(m, k, low - 1)] < line.forgotten:
        last = m.w[step_at(m, k, low - 1)]
        most = gap(now, last) if promise.in_time else now - last - 1
    measure_between(m, promise, least, most)


@inner
def thin(words: Any, line: Ordered, k: int, now: int) -> None:
    """Forget steps until a quarter of them is free: those that lie close for their age, but never the first or the
    last.

    Steps are a 32nd of the promise's k apart up to twice that k, which is where rows are released and distances
    measured, and half of their age further back: any age is known, and what matters is known well.
    """
    m = memory_of(words)
    promise = promise_at(m, line.promise)
    near, fine = 2 * min(promise.k, HIGH >> 1), promise.k >> 5
    while line.used > STEPS - STEPS // 4:
        n = 1
        for step in range(1, line.used):
            here, before = step_at(m, k, step), step_at(m, k, n - 1)
            if step + 1 < line.used:
                after = m.w[step_at(m, k, step + 1)]
                age = gap(now, after) if promise.in_time else now - after
                apart_by = gap(after, m.w[before]) if promise.in_time else after - m.w[before]
                if apart_by <= (fine if age <= near else max(fine, age >> 1)):
                    line.forgotten = max(line.forgotten, m.w[here])
                    continue
            there = step_at(m, k, n)
            m.w[there], m.w[there + 1] = m.w[here], m.w[here + 1]
            n += 1
        line.used = n
        fine = max(2, 2 * fine)
