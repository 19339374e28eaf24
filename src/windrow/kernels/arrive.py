"""What the drivers share: one group of rows that arrive together, before and after it is probed.

A batch is one block of words too: `r` as integers, `rx` as floats, one record per row in the order in which rows
are taken. A driver takes it group by group (a group: the rows of one tick, at most GROUP). For each:

    enter   see that there is room, move clock and watermark (if rows move it, or memory is full), expire
    probe   each row in turn: count or emit its matches, learn from it, admit it      <- the driver's own part
    leave   shed until every pool is inside its cap

Rows of one group meet each other because each is admitted before the next is probed and nothing is shed in between.
"""

from typing import Any

from windrow.kernels import age, tournament
from windrow.kernels.apart import apart, length
from windrow.kernels.chains import is_noted, key_of, link_at, set_aside, slot_at, stream_at, take_slot
from windrow.kernels.credit import first_credit
from windrow.kernels.directory import key_at
from windrow.kernels.estimate import MOST_GAIN, fade, hist_learn, learn_key, learns, pools
from windrow.kernels.jit import inline, inner
from windrow.kernels.joins import join_of_link, join_of_number, matches_in
from windrow.kernels.layout import (
    ARRIVALS,
    ARRIVED,
    BLOCK,
    BLOCK_CAP,
    CAP_BYTES,
    CAP_ROWS,
    COST,
    COUNT,
    DIR_SIZE,
    DONE,
    DRAIN,
    DROP,
    FAIL_WHEN_FULL,
    FREE_COUNT,
    FULL,
    GAIN_OFF,
    GIVEN,
    GONE_COUNT,
    GREEDY_DUAL,
    GROUP,
    GROW_BLOCKS,
    GROW_KEYS,
    GROW_SLOTS,
    GROWTH,
    H_FLOAT,
    HIST_OF_AT,
    HIST_SIZE,
    HISTS_AT,
    IDLE_LIMIT,
    INDEX_SIZE,
    INDEXES_AT,
    KEY,
    KEY_BYTES,
    KEY_IDLE,
    KEY_LIVE,
    LAST_ROWS,
    LEAVING,
    NEAR,
    NEED,
    NONE,
    OWN_CLOCK,
    PENDING,
    PER_STREAM,
    POOL,
    POOL_SIZE,
    PROBE_ONLY,
    PRUNE,
    R_CODES,
    R_COST,
    R_GAIN,
    R_LIVE,
    R_ROW,
    R_SLOT,
    R_STREAM,
    R_TICK,
    R_TIME,
    RANK,
    REACH,
    ROW,
    ROWS,
    SAMPLED,
    SCORE_OFF,
    SEQ,
    SHED,
    SINCE,
    SLOT_CAP,
    STREAM_BITS,
    TIME,
    TOP,
    USED_BYTES,
    USED_ROWS,
    VALUE_SUM,
    WEIGHT,
    X_STREAM,
)
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.ordered import used_at
from windrow.kernels.retain import (
    admit,
    any_over,
    count_departure,
    drop,
    ending,
    expire,
    expire_all,
    hold_key,
    let_go,
    meet_key,
    move_clock,
    move_watermark,
    open_key,
    pass_key,
    shed,
    turn_away,
    unused,
)
from windrow.kernels.sampler import sampled_out
from windrow.kernels.score import (
    clock,
    cut,
    expiry_of,
    group_score,
    lowest_group,
    ranked,
    stream_of,
    touch_all,
    touch_group,
    waits,
)


@inline
def row_words(m: Memory) -> int:
    """Words of an arriving row's record."""
    return R_CODES + m.links + m.vals


@inline
def group_end(m: Memory, r: Any, start: int, rows: int) -> int:
    """Where the group that starts at a row ends."""
    words = row_words(m)
    last = min(rows, start + m.w[GROUP])
    tick = r[start * words + R_TICK]
    end = start + 1
    while end < last and r[end * words + R_TICK] == tick:
        end += 1
    return end


@inline
def room(m: Memory, rows: int) -> int:
    """DONE when a group of rows will fit the block, or what has to grow first, by as many places as NEED says."""
    m.w[NEED] = rows - (m.w[FREE_COUNT] + m.w[SLOT_CAP] - m.w[TOP])
    if m.w[NEED] > 0:
        return DRAIN if m.w[GONE_COUNT] > 0 else GROW_SLOTS
    for d in range(m.dirs):
        ctl = m.dirs_at + d * DIR_SIZE
        if m.w[ctl + KEY_IDLE] > m.w[IDLE_LIMIT]:
            return PRUNE
        m.w[NEED] = m.w[ctl + KEY_LIVE] + rows - m.key_cap
        if m.w[NEED] > 0:  # tables have two places for a key, at least
            return GROW_KEYS
    for ix in range(m.indexes):
        held = m.w[stream_at(m, m.w[m.w[INDEXES_AT] + ix * INDEX_SIZE + X_STREAM]) + ROWS]
        m.w[NEED] = m.w[used_at(m, ix)] + splits(held, rows) + 1 - m.w[BLOCK_CAP]
        if m.w[NEED] > 0:
            return GROW_BLOCKS
    return DONE


@inline
def splits(held: int, rows: int) -> int:
    """Blocks that more rows can add, at most, to an ordered index that holds some.

    A block splits at the row after it is full, so before the first k splits k * (BLOCK + 1) rows were in k blocks; a
    half splits again after as many rows as it lacks.
    """
    return min(rows, (held + rows) // (BLOCK + 1) + rows // (BLOCK // 2) + 1)


@inline
def enter(m: Memory, r: Any, start: int, end: int) -> int:
    """Begin a group: DONE, or what has to grow first (then nothing has changed)."""
    need = room(m, end - start)
    if need != DONE:
        return need
    words = row_words(m)
    for k in range(start, end):
        move_clock(m, r[k * words + R_TIME], r[k * words + R_STREAM])
    if m.w[OWN_CLOCK] or crowded(m, r, start, end):
        move_watermark(m, r[start * words + R_TICK])
    expire_all(m)
    return DONE


@inline
def crowded(m: Memory, r: Any, start: int, end: int) -> bool:
    """Whether some pool might pass its cap, if all rows of a group are admitted."""
    words = row_words(m)
    for pool in range(m.pools):
        line = m.pools_at + pool * POOL_SIZE
        rows, cost = m.w[line + USED_ROWS], m.w[line + USED_BYTES]
        for k in range(start, end):
            if m.w[stream_at(m, r[k * words + R_STREAM]) + POOL] == pool:
                rows += 1
                cost += r[k * words + R_COST] + m.links * m.w[KEY_BYTES]
        if rows > m.w[line + CAP_ROWS] or cost > m.w[line + CAP_BYTES]:
            return True
    return False


@inline
def leave(m: Memory, r: Any, start: int, end: int) -> int:
    """End a group: shed what does not fit, or say FULL."""
    if m.w[PENDING] > 0:
        put_out(m.w, r, start, end)
    if m.w[FAIL_WHEN_FULL] and any_over(m):
        return FULL
    shed(m)
    return DONE


@inline
def pair_fits(m: Memory, mine: int, my_time: int, other: int, time: int) -> int:
    """1 if two rows lie in each other's windows, 0 if not, -1 if not and older rows of `other` will not either."""
    if my_time > time:  # theirs is the older one: their window decides
        at = stream_at(m, other)
        return -1 if apart(my_time, time) > length(m.w[at + REACH]) or time < m.w[at + SINCE] else 1
    at = stream_at(m, mine)
    if my_time < time:
        return 0 if apart(time, my_time) > length(m.w[at + REACH]) or my_time < m.w[at + SINCE] else 1
    near = m.w[at + NEAR] != 0 or m.w[stream_at(m, other) + NEAR] != 0
    return 1 if near and time >= m.w[stream_at(m, min(mine, other)) + SINCE] else 0


@inline
def count_row(m: Memory, stream: int) -> None:
    """Count an arrival for windows in rows and for the clock of arrivals."""
    m.w[ARRIVALS] += 1
    mine = stream_at(m, stream)
    m.w[mine + RANK] += 1
    if m.w[mine + LAST_ROWS] > 0:
        expire(m, stream)
    if age.due(m):
        age.estimate(m.w)


@inline
def fill(m: Memory, r: Any, rx: Any, at: int) -> int:
    """A slot with the data of the arriving row at a place, its keys opened, not yet a resident."""
    m.w[SEQ] += 1
    slot, stream = copy_row(m, r, rx, at), r[at + R_STREAM]
    for link in range(m.links):
        d = m.w[m.classes_at + stream * m.links + link]
        if d >= 0:
            m.w[link_at(m, slot, link) + KEY] = open_key(m, d, r[at + R_CODES + link])
    return slot


@inline
def copy_row(m: Memory, r: Any, rx: Any, at: int) -> int:
    """A slot with the data of the arriving row at a place, the last that was counted, without its keys."""
    slot, stream = take_slot(m), r[at + R_STREAM]
    record = slot_at(m, slot)
    m.w[record + TIME] = r[at + R_TIME]
    m.w[record + ARRIVED] = m.w[SEQ] - 1
    m.w[record + ROW] = r[at + R_ROW]
    m.w[record + COST] = (r[at + R_COST] << STREAM_BITS) | stream
    for column in range(m.vals):
        m.w[record + m.vals_off + column] = r[at + R_CODES + m.links + column]
    if m.rank_off > 0:
        m.w[record + m.rank_off] = m.w[stream_at(m, stream) + RANK] - 1
    if m.valued:
        m.x[record + m.w[GAIN_OFF]] = rx[at + R_GAIN]
    if m.rule == GIVEN:
        m.x[record + m.w[SCORE_OFF]] = rx[at + R_GAIN]
    return slot


@inline
def too_large(m: Memory, r: Any, at: int) -> bool:
    """Whether the row at a place would not fit its pool even alone."""
    pool = m.pools_at + m.w[stream_at(m, r[at + R_STREAM]) + POOL] * POOL_SIZE
    cost = r[at + R_COST] + m.links * m.w[KEY_BYTES]
    return cost > m.w[pool + CAP_BYTES] or m.w[pool + CAP_ROWS] < 1


@inline
def gain_of(m: Memory, rx: Any, at: int) -> float:
    """What the arriving row at a place adds to an output value, as statistics count it: never infinite."""
    return min(max(rx[at + R_GAIN], -MOST_GAIN), MOST_GAIN) if m.valued else 1.0


@inline
def learn(m: Memory, r: Any, rx: Any, at: int, slot: int) -> None:
    """Let the statistics see the arriving row at a place; priorities that rest on it follow."""
    if not learns(m):
        return
    stream = r[at + R_STREAM]
    for link in range(m.links):
        d = m.w[m.classes_at + stream * m.links + link]
        if d < 0 or (m.several and not matches_in(m, slot, join_of_link(m, stream, link))):
            continue
        learn_link(m, r, rx, at, d, link, key_of(m, slot, link))
    if m.hists > 0:
        learn_numbers(m.w, r, rx, at, gain_of(m, rx, at))
    learn_end(m)


@inline
def learn_link(m: Memory, r: Any, rx: Any, at: int, d: int, link: int, key: int) -> None:
    """Let the statistics see one key of the arriving row at a place; groups that rest on it follow."""
    stream = r[at + R_STREAM]
    learn_key(m, d, key, stream, r[at + R_CODES + link], gain_of(m, rx, at))
    if ranked(m) and not m.by_row and not waits(m):
        for other in range(m.streams):
            if (other != stream or pools(m)) and m.w[key_at(m, d, key) + PER_STREAM * other + COUNT] > 0:
                touch_group(m.w, key, other)


@inline
def learn_end(m: Memory) -> None:
    """After each arrival that was learned from: recent ones may have grown too heavy."""
    if m.x[GROWTH] != 1.0 and fade(m.w):
        touch_all(m.w)


@inner
def learn_numbers(words: Any, r: Any, rx: Any, at: int, gain: float) -> None:
    """Let the histograms see an arriving row."""
    m = memory_of(words)
    weight = m.x[WEIGHT]
    if m.valued and not m.w[VALUE_SUM]:
        weight *= max(gain, 0.0)
    for column in range(m.vals):
        hist = m.w[m.w[HIST_OF_AT] + r[at + R_STREAM] * m.vals + column]
        if hist >= 0 and m.several:
            join = join_of_number(m, r[at + R_STREAM], column)
            if (r[at + R_CODES + m.links] >> join) & 1 == 0:
                continue
        if hist >= 0:
            line, place = m.w[HISTS_AT] + hist * HIST_SIZE, at + R_CODES + m.links + column
            number = rx[place] if m.w[line + H_FLOAT] else float(r[place])
            hist_learn(m.w, line, number, weight)


@inline
def met_later(m: Memory, r: Any, k: int, end: int) -> bool:
    """Whether a later row of the group may match the k-th row, or make room for it by pushing another out of a window.

    True as well when the group is too long to look.
    """
    if end - k > 8 or (m.rank_off > 0 and end - k > 1):
        return True
    words = row_words(m)
    for later in range(k + 1, end):
        if r[later * words + R_CODES] == r[k * words + R_CODES]:
            return True
    return False


@inline
def hopeless(m: Memory, r: Any, at: int, key: int) -> bool:
    """Whether the row at a place would be the first to be shed, so that admitting it is wasted work."""
    if m.by_row or not ranked(m) or m.rule == GREEDY_DUAL or m.w[PENDING] > 0:  # who is left out will make room
        return False
    stream = r[at + R_STREAM]
    if m.w[key_at(m, 0, key) + PER_STREAM * stream + COUNT] > 0:
        return False  # an older row stands for the key: it would go first
    pool = m.w[stream_at(m, stream) + POOL]
    line, cost = m.pools_at + pool * POOL_SIZE, r[at + R_COST]
    if unused(m, 0, key, stream):
        cost += m.w[KEY_BYTES]
    if m.w[line + USED_ROWS] < m.w[line + CAP_ROWS] and m.w[line + USED_BYTES] + cost <= m.w[line + CAP_BYTES]:
        return False
    if ending(m, pool) >= 0:
        return False
    score = group_score(m, key, stream)
    now = clock(m)
    if m.drifting:
        tournament.advance(m.w, pool, now)
        ends = expiry_of(m, stream, r[at + R_TIME], m.w[stream_at(m, stream) + RANK] - 1)
        score = cut(score) * max(ends - now, 0.0)  # as a leaf computes it, to the last bit: ties decide
    if score < tournament.priority(m, tournament.leaf_at(m, pool, tournament.winner(m, pool)), now):
        return True  # leaves never say more than they should
    return score < tournament.priority(m, tournament.leaf_at(m, pool, lowest_group(m.w, pool)), now)


@inline
def left_out(m: Memory, r: Any, at: int) -> bool:
    """Whether the sampler leaves out the row at a place, the last that was counted."""
    return m.x[DROP] != 0.0 and sampled_out(m.w, r[at + R_STREAM], m.w[SEQ] - 1)


@inline
def refused(m: Memory, r: Any, at: int) -> bool:
    """Whether the row at a place can never be stored.

    Where nothing may be shed, whatever does not fit is admitted too: `leave` then finds the pool above its cap.
    """
    return m.w[FAIL_WHEN_FULL] == 0 and too_large(m, r, at)


@inline
def settle_slot(m: Memory, r: Any, at: int, slot: int) -> None:
    """Admit the row at a place, which has been probed from a slot, or turn it away."""
    r[at + R_SLOT] = NONE
    if r[at + R_LIVE] == PROBE_ONLY:
        let_go(m.w, slot, NONE)
        return
    out = left_out(m, r, at)
    if refused(m, r, at):
        turn_away(m.w, slot, SAMPLED if out else SHED)
        return
    store(m, r, at, slot, out)


@inline
def settle_row(m: Memory, r: Any, rx: Any, at: int, key: int, alone: bool) -> None:
    """The same for a row that has no slot yet, and of which only the key was met; without one it may be NONE.

    A row that is left out, or the first to be shed, is not admitted if it stands alone: no row of its group meets it.
    """
    r[at + R_SLOT] = NONE
    if r[at + R_LIVE] == PROBE_ONLY:
        pass_key(m, 0, key)
        return
    out = left_out(m, r, at)
    if refused(m, r, at) or (m.w[FAIL_WHEN_FULL] == 0 and alone and (out or hopeless(m, r, at, key))):
        reason = SAMPLED if out else SHED
        count_departure(m, r[at + R_STREAM], reason)
        if is_noted(m, m.w[SEQ] - 1):
            set_aside(m, copy_row(m, r, rx, at), reason)
        pass_key(m, 0, key)
        return
    if key < 0:
        key = meet_key(m, 0, r[at + R_CODES])
    hold_key(m, 0, key)
    slot = copy_row(m, r, rx, at)
    m.w[link_at(m, slot, 0) + KEY] = key
    store(m, r, at, slot, out)


@inline
def store(m: Memory, r: Any, at: int, slot: int, out: bool) -> None:
    """Admit the row at a place from its slot; if it is left out, until its group ends."""
    if m.rule == GREEDY_DUAL:
        m.x[slot_at(m, slot) + m.w[SCORE_OFF]] = first_credit(m.w, r[at + R_STREAM])
    admit(m, slot)
    r[at + R_SLOT] = slot
    if out:
        r[at + R_SLOT] = LEAVING - slot
        m.w[PENDING] += 1


@inner
def put_out(words: Any, r: Any, start: int, end: int) -> None:
    """Drop the rows of a group that the sampler has left out, and that stayed only to meet the rest of the group."""
    m = memory_of(words)
    size = row_words(m)
    m.w[PENDING] = 0
    for k in range(start, end):
        at = k * size
        if r[at + R_LIVE] != 0 and r[at + R_SLOT] <= LEAVING:
            slot = LEAVING - r[at + R_SLOT]
            r[at + R_SLOT] = NONE
            # a window in rows may have let it expire meanwhile, and another row may have its slot
            if m.w[slot_at(m, slot) + ROW] == r[at + R_ROW] and stream_of(m, slot) == r[at + R_STREAM]:
                drop(m, slot, SAMPLED)
