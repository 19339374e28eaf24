"""Evidence that no row which is still to come is a partner: what every arrival leaves behind, and what that shows.

    came       key, stream     rows of the stream with this key: 0, or the arrivals of the stream when the first of them
                               came, plus one for each further. So `rank - came` rows with other keys came since.
                               FORGOTTEN if all were deleted.
    before     slot            arrivals of a child stream when the row came
    steps      ordered column  (arrivals or latest time, largest value until then), some of them, newest last

A row is *closed* to a neighbour if one of these holds:

    met        it has at most one partner there, and a row of its key has come
    Integrity  k rows of the neighbour came since; or the watermark is more than k past its time
    Ordered    its value lies below the largest of all rows but the last k, or of all that are k behind the watermark
    Clustered  its values came, and since then more than k rows with others; or the first is k behind the watermark

Steps grow sparser with their age (watch.thin), so evidence of order may come late by a small part of k, and is exact
for small k.
A row of time t that is still to come has t at or above the watermark, so times need no order of arrival.
"""

from typing import Any

from windrow.kernels.directory import find
from windrow.kernels.distances import apart, length
from windrow.kernels.jit import inline, inner
from windrow.kernels.layout import (
    BY_CLUSTER,
    BY_INTEGRITY,
    FORGOTTEN,
    LOW,
    NO_KEY,
    NONE,
    R_CODES,
    R_STREAM,
    R_TIME,
    STEPS,
    Edge,
    Evidence,
    Ordered,
)
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.places import (
    before_at,
    came_at,
    came_time_at,
    chain,
    directory_of,
    evidence_at,
    key_at,
    key_of,
    numbers_at,
    ordered_at,
    promise_at,
    slot_at,
    step_at,
    stream_at,
)
from windrow.kernels.release.watch import measure_key, measure_order, thin


@inline
def behind(time: int, distance: int, mark: int) -> bool:
    """Whether a time lies more than a distance before a mark."""
    return mark > time and apart(mark, time) > length(distance)


# -- what arrivals leave behind ----------------------------------------------------------------------------------------


@inner
def observe(words: Any, r: Any, at: int) -> None:
    """Let the arriving row at a place, whatever becomes of it, tell ordered columns of its stream what has come."""
    m = memory_of(words)
    stream, time = r[at + R_STREAM], r[at + R_TIME]
    for k in range(m.head.ordered):
        line = ordered_at(m, k)
        if line.stream != stream:
            continue
        value = r[at + R_CODES + m.links + line.column]
        in_time = promise_at(m, line.promise).in_time
        if value > LOW:
            promise_at(m, line.promise).measured += 1  # a row that keeps the order says something, too
        if LOW < value < line.top:
            measure_order(m.w, line, k, value, time if in_time else stream_at(m, stream).rank)
        line.top = max(line.top, value)
        line.top_time = max(line.top_time, time)
        add_step(m, line, k, line.top_time if in_time else stream_at(m, stream).rank)


@inline
def add_step(m: Memory, line: Ordered, k: int, now: int) -> None:
    """Note how far a column has come."""
    if line.used > 0:
        last = step_at(m, k, line.used - 1)
        if m.w[last] == now or m.w[last + 1] == line.top:
            m.w[last + 1] = line.top
            return
    if line.used == STEPS:
        thin(m.w, line, k, now)
    here = step_at(m, k, line.used)
    m.w[here], m.w[here + 1] = now, line.top
    line.used += 1


@inline
def pass_steps(m: Memory, k: int) -> None:
    """Let the newest step of an ordered column that is k behind say what it has left behind."""
    line = ordered_at(m, k)
    promise = promise_at(m, line.promise)
    if promise.is_used == 0:
        line.low = LOW
        return
    now = m.head.watermark if promise.in_time else stream_at(m, line.stream).rank
    low, high = 0, line.used  # the first step that is not behind
    while low < high:
        mid = (low + high) >> 1
        here = m.w[step_at(m, k, mid)]
        past = behind(here, promise.k, now) if promise.in_time else now - here >= promise.k
        if past:
            low = mid + 1
        else:
            high = mid
    line.low = m.w[step_at(m, k, low - 1) + 1] if low > 0 else LOW


@inline
def note_key(m: Memory, stream: int, link: int, d: int, key: int, time: int) -> None:
    """Note that a row of a stream came under a key."""
    place = came_at(m, d, key, stream)
    came, least = m.w[place], LOW
    if m.head.clusters_in_time:
        least = m.w[came_time_at(m, d, key, stream)]
        if came <= 0 or time < least:
            m.w[came_time_at(m, d, key, stream)] = time
    m.w[place] = came + 1 if came > 0 else stream_at(m, stream).rank
    measure_key(m.w, stream, link, d, key, came, time, least)


@inner
def note_codes(words: Any, r: Any, at: int) -> None:
    """Note that a row came, under those of its keys that are known here."""
    m = memory_of(words)
    stream = r[at + R_STREAM]
    for link in range(m.links):
        d = directory_of(m, stream, link)
        if d >= 0 and r[at + R_CODES + link] != NO_KEY:
            key = find(m, d, r[at + R_CODES + link])
            if key >= 0:
                note_key(m, stream, link, d, key, r[at + R_TIME])


@inner
def forget_codes(words: Any, r: Any, at: int) -> None:
    """Forget that rows came under the keys of a deletion, where none of its stream is left.

    Clusters go by the same word, and one that is broken would not be seen: a stream that has them forgets nothing.
    """
    m = memory_of(words)
    stream = r[at + R_STREAM]
    for k in range(m.head.promises):
        if promise_at(m, k).kind == BY_CLUSTER and promise_at(m, k).stream == stream:
            return
    for link in range(m.links):
        d = directory_of(m, stream, link)
        if d >= 0 and r[at + R_CODES + link] != NO_KEY:
            key = find(m, d, r[at + R_CODES + link])
            if key >= 0 and chain(key_at(m, d, key), stream).count == 0:
                m.w[came_at(m, d, key, stream)] = FORGOTTEN


@inline
def note_befores(m: Memory, slot: int, stream: int) -> None:
    """Note in a slot how many rows of child streams had come before its row."""
    for k in range(m.head.befores):
        child = m.w[m.head.befores_at + stream * m.head.befores + k]
        m.w[before_at(m, slot, k)] = stream_at(m, child).rank if child >= 0 else 0


# -- what they show ----------------------------------------------------------------------------------------------------


@inline
def is_used(m: Memory, promise: int) -> bool:
    """Whether there is a promise, and rows are released by it."""
    return promise >= 0 and promise_at(m, promise).is_used != 0


@inline
def has_met(m: Memory, edge: Edge, slot: int) -> bool:
    """Whether the only partner that a resident can have on an edge has come."""
    if not is_used(m, edge.child):
        return False
    return m.w[came_at(m, edge.directory, key_of(m, slot, edge.link), edge.other)] > 0


@inline
def closed_by(m: Memory, edge: Edge, slot: int) -> int:
    """The promise by which no row that is still to come is a partner of a resident on an edge, or NONE."""
    if edge.directory < 0:
        return NONE
    if has_met(m, edge, slot):
        return edge.child
    for k in range(edge.first_evidence, edge.after_evidence):
        line = evidence_at(m, k)
        if is_used(m, line.promise) and shows(m, line, edge, slot):
            return line.promise
    return NONE


@inline
def is_closed(m: Memory, edge: Edge, slot: int) -> bool:
    """Whether no row that is still to come is a partner of a resident on an edge."""
    return closed_by(m, edge, slot) >= 0


@inline
def shows(m: Memory, line: Evidence, edge: Edge, slot: int) -> bool:
    """Whether evidence shows that a resident has no more partners to come."""
    promise = promise_at(m, line.promise)
    if promise.kind == BY_INTEGRITY:
        if promise.in_time:
            return behind(slot_at(m, slot).time, promise.k, m.head.watermark)
        return stream_at(m, edge.other).rank - m.w[before_at(m, slot, line.which)] >= promise.k
    if promise.kind == BY_CLUSTER:
        key = key_of(m, slot, link_into(m, edge.stream, line.which))
        came = m.w[came_at(m, line.which, key, edge.other)]
        if came <= 0:
            return False
        if promise.in_time:
            return behind(m.w[came_time_at(m, line.which, key, edge.other)], promise.k, m.head.watermark)
        return stream_at(m, edge.other).rank - came > promise.k
    return m.w[numbers_at(m, slot) + line.column] < ordered_at(m, line.which).low


@inline
def link_into(m: Memory, stream: int, d: int) -> int:
    """A stream's link into a directory."""
    return m.w[m.head.position_at + stream * m.dirs + d]
