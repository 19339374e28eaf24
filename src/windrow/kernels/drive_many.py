"""The driver of n streams and any predicates.

An arriving row visits the other streams in its probe order. At each depth it draws candidates through the best access
that what is bound so far allows (a chain of equal keys, a range of an ordered index, or all residents), tests
windows against every bound row and the predicates that close there, and goes deeper:

    arriving a ── depth 0: stream B by key ── depth 1: stream C by range ── emit (a, b, c)

Windows are tested pair by pair, which is the same as testing each row against the latest of the match.

A route is the probe order of a stream in a join. With one join, routes are numbered like the streams; with several, a
row takes the routes of its stream one after the other (see joins.py), and a match carries its join.
"""

from typing import Any

import numpy as np

from windrow.kernels.distances import after, apart, before, length
from windrow.kernels.drive_pair import widen
from windrow.kernels.group import begin, count_row, end, group_end
from windrow.kernels.jit import entry, inline, inner
from windrow.kernels.joins import joins, matches_in
from windrow.kernels.layout import (
    ACCESS_SIZE,
    B_COUNT,
    B_NUMBER,
    B_SLOT,
    DONE,
    HASH,
    INDEX_STRIDE,
    LATEST,
    LOW,
    NONE,
    OUT_PAUSE,
    P_BAND,
    P_DISTANCE,
    P_EQUAL,
    P_GE,
    P_GT,
    P_LE,
    P_LT,
    PAUSE,
    R_LIVE,
    R_SLOT,
    R_STREAM,
    RANGE,
    RECALL,
    SCAN,
    Predicate,
)
from windrow.kernels.memory import Memory, bare_floats, bare_ints, memory_of
from windrow.kernels.ordered import block_at, ordered_bits, seek
from windrow.kernels.places import (
    chain,
    index_at,
    key_at,
    key_of,
    link_at,
    numbers_at,
    predicate_at,
    slot_at,
    stream_at,
    stream_of,
)
from windrow.kernels.settle import fill, row_words, settle_slot
from windrow.kernels.windows import pair_fits

# per depth: the candidate to come (slot, or place in the order of blocks), place in the block, upper end of the range
NEXT, IN_BLOCK, UPPER, CURSOR_SIZE = range(4)
SMALL, LARGE = 1e-280, 1e300  # sums of squares between them have lost nothing


@inner
def number_at(words: Any, slot: int, column: int) -> int:
    """Where a slot's number of a value column stands."""
    m = memory_of(words)
    return numbers_at(m, slot) + column


@inner
def distance_holds(words: Any, pred: Predicate, a: int, b: int) -> bool:
    """Whether two rows lie within the Euclidean limit."""
    m = memory_of(words)
    total, most = 0.0, 0.0
    left, right = number_at(m.w, a, pred.left_col), number_at(m.w, b, pred.right_col)
    for dim in range(pred.dims):
        gap = m.x[left + dim] - m.x[right + dim]
        total += gap * gap
        most = max(most, abs(gap))
    if SMALL < total < LARGE or most == 0.0:
        return float(np.sqrt(total)) <= pred.limit
    total = 0.0  # squares have left the range of floats, so they are taken of what the gaps are of the largest
    for dim in range(pred.dims):
        gap = (m.x[left + dim] - m.x[right + dim]) / most
        total += gap * gap
    return float(np.sqrt(total)) * most <= pred.limit


@inner
def band_holds(words: Any, pred: Predicate, left: int, right: int) -> bool:
    """Whether the numbers at two places lie within the band's width."""
    m = memory_of(words)
    if pred.is_float:
        return abs(m.x[left] - m.x[right]) <= pred.limit
    low, high = min(m.w[left], m.w[right]), max(m.w[left], m.w[right])
    return bool(apart(high, low) <= length(pred.width))


@inner
def holds(words: Any, pred: Predicate, a: int, b: int) -> bool:
    """Whether a predicate holds between a row of its left and a row of its right stream."""
    m = memory_of(words)
    kind = pred.kind
    if kind == P_EQUAL:
        d = pred.left_col
        left = m.w[m.head.position_at + pred.left * m.dirs + d]
        right = m.w[m.head.position_at + pred.right * m.dirs + d]
        return key_of(m, a, left) == key_of(m, b, right)
    if kind == P_DISTANCE:
        return distance_holds(m.w, pred, a, b)
    at_left, at_right = number_at(m.w, a, pred.left_col), number_at(m.w, b, pred.right_col)
    if kind == P_BAND:
        return band_holds(m.w, pred, at_left, at_right)
    p, q = m.w[at_left], m.w[at_right]
    if pred.is_float:
        p, q = ordered_bits(p), ordered_bits(q)
    if kind == P_LT:
        return p < q
    if kind == P_LE:
        return p <= q
    if kind == P_GT:
        return p > q
    if kind == P_GE:
        return p >= q
    return p != q


@inner
def float_code(number: float) -> int:
    """The ordered code of a computed float."""
    scratch = np.empty(1, np.float64)
    scratch[0] = number
    return ordered_bits(scratch.view(np.int64)[0])


@inner
def partner_codes(words: Any, pred: Predicate, bound: int, bound_is_left: bool) -> tuple[int, int]:
    """The range of ordered numbers in which partners of a bound row lie (it may be a little too wide)."""
    m = memory_of(words)
    column = pred.left_col if bound_is_left else pred.right_col
    at = number_at(m.w, bound, column)
    kind = pred.kind
    if kind == P_BAND or kind == P_DISTANCE:
        if pred.is_float:
            if np.isnan(m.x[at]):
                return 1, 0
            # differences are rounded: widen by more than rounding can do
            reach = pred.limit + (abs(m.x[at]) + pred.limit) * 4.5e-16 + 5e-324
            return float_code(m.x[at] - reach), float_code(m.x[at] + reach)
        width = length(pred.width)
        return before(m.w[at], width), after(m.w[at], width)
    code = ordered_bits(m.w[at]) if pred.is_float else m.w[at]
    strict = kind == P_LT or kind == P_GT
    if (kind == P_LT or kind == P_LE) == bound_is_left:
        return (1, 0) if strict and code == LATEST else (code + strict, LATEST)
    return (1, 0) if strict and code == LOW else (LOW, code - strict)


@inner
def order_of(words: Any, route: int, depth: int) -> int:
    """The stream that an arriving row visits at a depth of its route."""
    m = memory_of(words)
    return m.w[m.head.order_at + route * (m.streams - 1) + depth]


@inner
def access_at(words: Any, route: int, depth: int) -> int:
    """Where the access of a depth stands: kind, which, binder."""
    m = memory_of(words)
    return m.head.access_at + (route * (m.streams - 1) + depth) * ACCESS_SIZE


@inline
def last_depth(m: Memory, route: int) -> int:
    """The depth at which a route ends; -1 where a join has nothing to do with the stream."""
    if not m.several:
        return m.streams - 2
    last = -1
    while last < m.streams - 2 and order_of(m.w, route, last + 1) >= 0:
        last += 1
    return last


@inner
def open_depth(words: Any, route: int, depth: int, bound: Any, cur: Any) -> None:
    """Place the cursor of a depth before its first candidate."""
    m = memory_of(words)
    stream, access = order_of(m.w, route, depth), access_at(m.w, route, depth)
    kind, which, binder = m.w[access], m.w[access + 1], m.w[access + 2]
    m.w[m.head.tally_at + (route * m.streams + stream) * 2] += 1
    if kind == HASH:
        key = key_of(m, bound[binder], m.w[m.head.position_at + binder * m.dirs + which])
        cur[depth, NEXT] = chain(key_at(m, which, key), stream).tail
    elif kind == SCAN:
        cur[depth, NEXT] = stream_at(m, stream).newest
    else:
        pred = predicate_at(m, which % INDEX_STRIDE)
        low, high = partner_codes(m.w, pred, bound[binder], pred.left == binder)
        cur[depth, UPPER] = high
        cur[depth, NEXT], cur[depth, IN_BLOCK] = seek(m.w, which // INDEX_STRIDE, low)
        if low > high:
            cur[depth, NEXT] = LATEST


@inner
def next_in_range(words: Any, ix: int, cur: Any, depth: int) -> int:
    """The next candidate of a range of an ordered index, or NONE."""
    m = memory_of(words)
    place, here = cur[depth, NEXT], cur[depth, IN_BLOCK]
    if place >= index_at(m, ix).used:
        return NONE
    at = block_at(m, ix, place)
    if m.w[at + B_NUMBER + here] > cur[depth, UPPER]:
        return NONE
    if here + 1 < m.w[at + B_COUNT]:
        cur[depth, IN_BLOCK] = here + 1
    else:
        cur[depth, NEXT] = place + 1
        cur[depth, IN_BLOCK] = 0
    return m.w[at + B_SLOT + here]


@inner
def next_candidate(words: Any, route: int, depth: int, cur: Any) -> int:
    """The next candidate of a depth, or NONE."""
    m = memory_of(words)
    access = access_at(m.w, route, depth)
    kind, which = m.w[access], m.w[access + 1]
    if kind == RANGE:
        return next_in_range(m.w, which // INDEX_STRIDE, cur, depth)
    slot = cur[depth, NEXT]
    if slot >= 0:
        if kind == HASH:
            link = m.w[m.head.position_at + order_of(m.w, route, depth) * m.dirs + which]
            cur[depth, NEXT] = link_at(m, slot, link).older
        else:
            cur[depth, NEXT] = slot_at(m, slot).older
    return slot


@inner
def passes(words: Any, me: int, route: int, depth: int, bound: Any, cur: Any, slot: int) -> bool:
    """Whether a candidate fits the windows of the bound rows and the predicates that close at this depth."""
    m = memory_of(words)
    stream, time = order_of(m.w, route, depth), slot_at(m, slot).time
    for k in range(depth + 1):
        other = me if k == 0 else order_of(m.w, route, k - 1)
        fits = pair_fits(m, other, slot_at(m, bound[other]).time, stream, time)
        if fits < 0 and m.w[access_at(m.w, route, depth)] != RANGE:
            cur[depth, NEXT] = NONE  # candidates come newest first: the rest is older still
        if fits <= 0:
            return False
    checks = m.head.checks_at + (route * (m.streams - 1) + depth) * (m.preds + 1)
    while m.w[checks] >= 0:
        pred = predicate_at(m, m.w[checks])
        left, right = pred.left, pred.right
        a = slot if left == stream else bound[left]
        b = slot if right == stream else bound[right]
        if not holds(m.w, pred, a, b):
            return False
        checks += 1
    return True


@inner
def add_value(words: Any, bound: Any) -> None:
    """Add the output value of a match."""
    m = memory_of(words)
    total = 0.0 if m.head.value_sum else 1.0
    for slot in bound:
        gain = slot_at(m, slot).gain
        total = total + gain if m.head.value_sum else total * gain
    m.head.value += total


@inner
def note(h: Any, words: Any, me: int, bound: Any) -> None:
    """Let the policy see the residents of a match."""
    m = memory_of(words)
    for stream in range(m.streams):
        if stream != me and bound[stream] >= 0:
            h.matched(h, m, bound[stream])


@inner
def probe_many(
    h: Any, words: Any, slot: int, route: int, bound: Any, cur: Any, out: Any, sent: int
) -> tuple[Any, int, int]:
    """All matches of one arriving row on a route: the matches, how many are in `out`, and how many were found."""
    m = memory_of(words)
    me = stream_of(m, slot)
    bound[me] = slot
    found, depth, last = 0, 0, last_depth(m, route)
    watching, several, join = h.watches(h, m), m.several != 0, 0
    if several:
        join = route // m.streams
    h.looks(h, m, route, 0, bound)
    open_depth(m.w, route, 0, bound, cur)
    while depth >= 0:
        there = next_candidate(m.w, route, depth, cur)
        if there < 0:
            depth -= 1
            continue
        if (several and not matches_in(m, there, join)) or not passes(m.w, me, route, depth, bound, cur, there):
            continue
        if not h.sees(h, m, there):
            continue
        stream = order_of(m.w, route, depth)
        bound[stream] = there
        m.w[m.head.tally_at + (route * m.streams + stream) * 2 + 1] += 1
        if depth < last:
            depth += 1
            h.looks(h, m, route, depth, bound)
            open_depth(m.w, route, depth, bound, cur)
            continue
        if not h.is_new(h, m, bound):
            continue
        found += 1
        if m.valued:
            add_value(m.w, bound)
        if watching:
            note(h, m.w, me, bound)
        if h.hides(h, m):
            for k in range(m.streams):
                h.paired(h, m, bound[k])
        if m.head.emit:
            if sent == out.shape[1]:
                out = widen(out, sent + 1)
            for k in range(m.streams):
                out[k, sent] = slot_at(m, bound[k]).row if bound[k] >= 0 else NONE
            if several:
                out[m.streams, sent] = join
            sent += 1
        if h.enough(h, m):
            break
    return out, sent, found


@inner
def probe_joins(h: Any, words: Any, slot: int, bound: Any, cur: Any, out: Any, sent: int) -> tuple[Any, int, int]:
    """All matches of one arriving row in all of several joins; whoever it matches is paid by every join."""
    m = memory_of(words)
    me, total = stream_of(m, slot), 0
    for join in range(joins(m)):
        route = join * m.streams + me
        if not matches_in(m, slot, join) or last_depth(m, route) < 0:
            continue
        for stream in range(m.streams):
            bound[stream] = NONE
        out, sent, found = probe_many(h, m.w, slot, route, bound, cur, out, sent)
        m.w[m.head.tally_at + (route * m.streams + me) * 2 + 1] += found
        h.joined(h, m)
        total += found
    return out, sent, total


@entry
def drive_many(h: Any, block: Any, batch: Any, out: Any, probing: bool) -> tuple[int, Any, int]:
    """Take the batch from the cursor on; what stopped it, the matches as payload rows, and how many.

    If the rows are not probing, they find no matches, and all else is as if they had none.
    """
    m, r, rx = memory_of(block), bare_ints(batch), bare_floats(batch)
    bound = np.empty(m.streams, np.int64)
    cur = np.zeros((m.streams, CURSOR_SIZE), np.int64)
    sent, status, i = 0, DONE, m.head.cursor
    words = row_words(m)
    rows = batch.shape[0] // words
    while i < rows:
        stop = group_end(m, r, i, rows)
        status = begin(h, m, r, i, stop)
        if status != DONE:
            break
        for k in range(i, stop):
            at = k * words
            if h.deleted(h, m, r, at):
                continue
            count_row(h, m, r[at + R_STREAM])
            h.observed(h, m, r, at)
            if r[at + R_LIVE] <= 0:
                r[at + R_SLOT] = NONE
                h.refused(h, m, r, rx, at)
                continue
            slot, found = fill(h, m, r, rx, at), 0
            if not probing:
                pass
            elif m.several:
                out, sent, found = probe_joins(h, m.w, slot, bound, cur, out, sent)
            else:
                out, sent, found = probe_many(h, m.w, slot, stream_of(m, slot), bound, cur, out, sent)
            h.found_all(h, m, found)
            h.rewarded(h, m, r, at, key_of(m, slot, 0) if m.links > 0 else NONE, found)
            if m.head.learned_ahead == 0:
                h.learn_row(h, m, r, rx, at, slot)
            settle_slot(h, m, r, rx, at, slot)
            h.noted(h, m, r, at)
        status = end(h, m, r, i, stop)
        i = stop
        m.head.cursor = i
        if status == DONE and h.calls(h, m):
            status = RECALL
        if status != DONE:
            break
        if sent >= OUT_PAUSE and i < rows:
            status = PAUSE
            break
    return status, out, sent
