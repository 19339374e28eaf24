"""Chances of partners over all keys and ranges of a row, where rows are leaves of their own.

Of several joins, a row's chance is the sum of its chances in each that it can match in. They are all counted in
arrivals, so that they compare: how many rows have come that it would have met.
"""

from typing import Any

import numpy as np

from windrow.kernels.jit import inner
from windrow.kernels.joins import join_of_link, join_of_number, joins, matches_in
from windrow.kernels.layout import (
    NONE,
    P_BAND,
    P_DISTANCE,
    P_EQUAL,
    P_GE,
    P_GT,
    P_LE,
    P_LT,
    Predicate,
)
from windrow.kernels.memory import memory_of
from windrow.kernels.places import (
    directory_of,
    histogram_at,
    key_at,
    key_of,
    numbers_at,
    predicate_at,
    slot_at,
    stream_of,
)
from windrow.kernels.statistics.counts import LEAST, arrivals_of, usual
from windrow.kernels.statistics.histogram import hist_share


@inner
def with_keys(h: Any, words: Any, d: int, key: int, stream: int, chance: float, value: float) -> tuple[float, float]:
    """A row's chance of partners and the output value to expect, after the partners through one directory."""
    m = memory_of(words)
    record = key_at(m, d, key)
    for other in range(m.streams):
        if other == stream or m.w[m.head.position_at + other * m.dirs + d] == NONE:
            continue
        freq = arrivals_of(h, m, record, other)
        worth = h.worth_of(h, m, record, other) if m.valued else freq
        if m.streams > 2:  # a row with more neighbours must not count as rarer: compare with the usual arrival
            often = usual(h, m, d, other)
            freq, worth = freq / often, worth / often
        value = value * freq + worth * chance if m.head.value_sum else value * worth
        chance *= freq
    return chance, value


@inner
def partner_range(words: Any, pred: Predicate, slot: int, left_side: bool, dim: int) -> tuple[float, float]:
    """The range of numbers on the other side that a resident would match."""
    m = memory_of(words)
    column = pred.left_col if left_side else pred.right_col
    at = numbers_at(m, slot) + column + dim
    number = m.x[at] if pred.is_float else float(m.w[at])
    if np.isnan(number):  # the largest of all numbers
        number = np.inf
    kind = pred.kind
    if kind == P_BAND or kind == P_DISTANCE:
        return number - pred.limit, number + pred.limit
    upward = kind == P_LT or kind == P_LE  # left < right
    if upward or kind == P_GT or kind == P_GE:
        if upward == left_side:
            return number, np.inf
        return -np.inf, number
    return -np.inf, np.inf


@inner
def range_factor(words: Any, slot: int, stream: int, join: int) -> float:
    """A row's chance of partners through the band, distance and comparison predicates of a join."""
    m = memory_of(words)
    factor = 1.0
    for k in range(m.preds):
        pred = predicate_at(m, k)
        left_side = pred.left == stream
        if pred.kind == P_EQUAL or not (left_side or pred.right == stream):
            continue
        other = pred.right if left_side else pred.left
        column = pred.right_col if left_side else pred.left_col
        if m.several and join_of_number(m, other, column) != join:
            continue
        for dim in range(pred.dims):
            hist = m.w[m.head.hist_of_at + other * m.vals + column + dim]
            if hist >= 0:
                low, high = partner_range(m.w, pred, slot, left_side, dim)
                factor *= hist_share(m.w, histogram_at(m, hist), low, high)
    return factor


@inner
def usual_range(h: Any, words: Any, stream: int, join: int) -> float:
    """Arrivals that the ranges of a stream in a join choose from: the geometric mean over them."""
    m = memory_of(words)
    logs, n = 0.0, 0
    for k in range(m.preds):
        pred = predicate_at(m, k)
        left_side = pred.left == stream
        if pred.kind == P_EQUAL or not (left_side or pred.right == stream):
            continue
        other = pred.right if left_side else pred.left
        column = pred.right_col if left_side else pred.left_col
        hist = m.w[m.head.hist_of_at + other * m.vals + column]
        if hist >= 0 and join_of_number(m, other, column) == join:
            total = histogram_at(m, hist).total
            logs += np.log(max(h.histogram_total(h, m, other, total), LEAST))
            n += 1
    return float(np.exp(logs / n)) if n > 0 else 1.0


@inner
def chance_in(h: Any, words: Any, slot: int, stream: int, join: int) -> float:
    """A row's chance of partners in one of several joins, counted in arrivals.

    One partner by key: f. Several:  product of f / u  times  their unit, the geometric mean of u;  f is how often a key
    has come, u how often that of the usual arrival. By ranges alone: the share of those that have come, times their
    number. Shares of ranges multiply the rest.
    """
    m = memory_of(words)
    freq, relative, logs, n = 1.0, 1.0, 0.0, 0
    for link in range(m.links):
        d = directory_of(m, stream, link)
        if d < 0 or join_of_link(m, stream, link) != join:
            continue
        record = key_at(m, d, key_of(m, slot, link))
        for other in range(m.streams):
            if other == stream or m.w[m.head.position_at + other * m.dirs + d] == NONE:
                continue
            often = usual(h, m, d, other)
            freq = arrivals_of(h, m, record, other)
            relative *= freq / often
            logs += np.log(often)
            n += 1
    chance = freq
    if n == 0:
        chance = usual_range(h, m.w, stream, join)
    elif n > 1:
        chance = relative * float(np.exp(logs / n))
    return chance * range_factor(m.w, slot, stream, join) if m.hists > 0 else chance


@inner
def joint_chance(h: Any, words: Any, slot: int, stream: int) -> float:
    """A resident's chances of partners, summed over the joins in which it can match."""
    m = memory_of(words)
    total = 0.0
    for join in range(joins(m)):
        if matches_in(m, slot, join):
            total += chance_in(h, m.w, slot, stream, join)
    return total


@inner
def row_chance(h: Any, words: Any, slot: int) -> float:
    """A resident's chance of partners over its keys and ranges, weighted by the output value to expect."""
    m = memory_of(words)
    stream = stream_of(m, slot)
    if m.several:
        return joint_chance(h, m.w, slot, stream)
    chance, value = 1.0, 1.0
    if m.valued:
        value = slot_at(m, slot).gain
    for link in range(m.links):
        d = directory_of(m, stream, link)
        if d >= 0:
            chance, value = with_keys(h, m.w, d, key_of(m, slot, link), stream, chance, value)
    score = value if m.valued else chance
    if m.hists > 0:
        score *= range_factor(m.w, slot, stream, 0)
    return score
