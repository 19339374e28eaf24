"""The tuner: finds the percentile at which credits start, while the join runs, by trying others and counting matches.

It knows the percentiles 1 - 2 ** -k, k below TRIALS. A round tries three of them: the present one, a higher, a lower;
then the one of most matches per arrival becomes the present one. What earlier trials of the same percentile have found
fades. Nothing but words of the head and one small table is kept, and an arrival costs one count.
"""

from typing import Any

from windrow.kernels.jit import inline, inner
from windrow.kernels.layout import (
    START_TUNED,
    TRIALS,
)
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.places import pool_at, slot_at, stream_at

ROUND, ROUNDS = 6, 4  # halves of trials until one of three initial credits is chosen, and how often until one is far
FAR = 3
LEAST_SPAN = 256  # arrivals of a half of a trial, at least
PATIENCE = 64  # times the residents in arrivals, after which a trial no longer waits for them to leave
FADE = 0.8  # what an earlier trial of the same initial credit weighs beside a new one
WORTH_A_MOVE = 1.01


@inline
def neighbour(m: Memory, turn: int) -> int:
    """The initial credit of a turn, as k of 1 - 2 ** -k: the present one, a higher, a lower.

    In the last of some rounds those further off are tried, so that a valley in between does not end the search.
    """
    step = 1 if m.head.trial < (ROUNDS - 1) * ROUND else FAR
    trial = m.head.initial + (step if turn == 1 else 0) - (step if turn == 2 else 0)
    return min(max(trial, 0), TRIALS - 1)


@inline
def trial_of(m: Memory) -> int:
    """The initial credit on trial."""
    return neighbour(m, m.head.trial % ROUND // 2)


@inline
def trial_share(m: Memory) -> float:
    """The initial credit on trial, as a share of residents."""
    return 1.0 - 0.5 ** float(trial_of(m))


@inline
def tunes(m: Memory) -> bool:
    """Whether the initial credit is found while the join runs; counts an arrival if so."""
    if m.head.credit_start != START_TUNED:
        return False
    m.head.trial_left -= 1
    return m.head.trial_left <= 0


@inner
def next_trial(words: Any) -> None:
    """Go on with a trial: first all residents from before it leave, then matches are counted for as long as that took.

    Rows that another initial credit let in stay until they expire, and would be counted for or against this one.
    """
    m = memory_of(words)
    rows = 0
    for pool in range(m.pools):
        rows += pool_at(m, pool).used_rows
    step = max(rows, LEAST_SPAN)
    m.head.trial_left = step
    if m.head.trial % 2 == 0:
        if m.head.trial_span < PATIENCE * step and held_before(m, m.head.trial_start):
            m.head.trial_span += step
            return
        m.head.trial_start = m.head.matched
        m.head.trial_span = max(m.head.trial_span, step)
        m.head.trial_left = m.head.trial_span
    else:
        at = m.head.trials_at + 2 * trial_of(m)
        m.x[at] = FADE * m.x[at] + (m.head.matched - m.head.trial_start)
        m.x[at + 1] = FADE * m.x[at + 1] + m.head.trial_span
        if m.head.trial % ROUND == ROUND - 1:
            choose(m.w)
        m.head.trial_start = m.head.seq
        m.head.trial_span = step
    m.head.trial = (m.head.trial + 1) % (ROUNDS * ROUND)


@inline
def held_before(m: Memory, seq: int) -> bool:
    """Whether somebody is still there who came before a row."""
    for stream in range(m.streams):
        slot = stream_at(m, stream).oldest
        if slot >= 0 and slot_at(m, slot).seq < seq:
            return True
    return False


@inner
def choose(words: Any) -> None:
    """End a round: of its three initial credits take the one of most matches per arrival."""
    m = memory_of(words)
    best, most = m.head.initial, 0.0
    for turn in range(3):
        at = m.head.trials_at + 2 * neighbour(m, turn)
        rate = m.x[at] / max(m.x[at + 1], 1.0)
        if rate > most:
            best, most = neighbour(m, turn), rate * (WORTH_A_MOVE if turn == 0 else 1.0)
    m.head.initial = best
