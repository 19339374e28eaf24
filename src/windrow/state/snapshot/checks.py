"""What the columns of a shard can be: invariants of the kernels, tested in whole columns.

A snapshot's numbers come from outside. Whatever a kernel uses as a place, a count or an order must be one, and what is
accepted must be a state that kernels can have left; `restoring.py` asks here before any of them runs. Functions say
whether that is so, and beside each condition stands who keeps it.
"""

import numpy as np

from windrow.kernels import layout as at
from windrow.kernels import tuner
from windrow.kernels.layout import HIGH, LOW, NONE
from windrow.state.block import FIRST_TRIAL
from windrow.state.parts import judges
from windrow.state.plan import Plan

HEAVIEST = 1e100  # counts.fade scales all weights down before they pass it
LEAST_STEP, LARGEST = 1e-6, 1e304  # of a histogram: hist_learn starts with the one, and takes values below 1e300
ROUNDED = 1.0 + 1e-9
MOST = 1e290  # of a sum of weights, or of values (counts.MOST_GAIN): far above any, and adding to it changes nothing
CREDITS = 2**53  # whole numbers below it are exact as floats


def head(words: np.ndarray, plan: Plan) -> bool:
    """The single words that change with every row."""
    counts = words[
        [
            at.Head.seq,
            at.Head.matched,
            at.Head.random,
            at.Head.arrivals,
            at.Head.peak_rows,
            at.Head.peak_bytes,
            at.Head.routed,
            at.Head.filter_used,
        ]
    ]
    fine = bool(((counts >= 0) & (counts < HIGH)).all())
    fine &= words[at.Head.seq] <= words[at.Head.arrivals]  # count_row is called for every row, and some are not taken
    fine &= words[at.Head.routed] <= words[at.Head.arrivals]
    fine &= plan.value is not None or words[at.Head.value] == 0
    fine &= words[at.Head.matched] <= most_matches(words, plan)
    fine &= words[at.Head.begun] == 1 or (plan.defers and words[at.Head.begun] == 0 and words[at.Head.ranking] == 0)
    fine &= words[at.Head.ranking] == 0 or (plan.ranked and words[at.Head.ranking] == 1)
    fine &= bool(words[at.Head.spared_rows] >= 0) and bool(words[at.Head.blinded] >= 0)
    spares, missed = words.view(np.float64)[[at.Head.spares, at.Head.missed]].tolist()
    fine &= 0.0 <= spares <= (0.0 if plan.release is None else plan.release.spares) and 0.0 <= missed < np.inf
    learned = _weights(words, plan) and _tuned(words, plan) and _judged(words, plan)
    return bool(fine) and learned and _sampled(words.view(np.float64))


def most_matches(words: np.ndarray, plan: Plan) -> int:
    """Matches that so many rows can have, if all of them match in every join."""
    return int(min(len(plan.members) * int(words[at.Head.seq]) ** plan.streams, HIGH - 1))


def most_credit(words: np.ndarray, plan: Plan) -> int:
    """Credit that a row can have: every join adds to it with every row, its rank among all at most (pay_marked)."""
    rows = int(words[at.Head.seq]) + 1
    return min(len(plan.members) * 2 * rows * rows, CREDITS - 1)


def _weights(words: np.ndarray, plan: Plan) -> bool:
    """What an arrival weighs, and what AUTO goes by (counts.fade, Trials._follow)."""
    weight, mix, until = words.view(np.float64)[[at.Head.weight, at.Head.mix, at.Head.mix_until]].tolist()
    if not 1.0 <= weight <= HEAVIEST * ROUNDED:
        return False
    if not plan.keeps("recent"):
        even = plan.learning.half_life is not None or weight == 1.0
        return (
            even and (mix, until) == (0.0, np.inf) and words[at.Head.choice] == 0 and words[at.Head.half_life] == NONE
        )
    fine = 0.0 <= mix <= until and until > weight  # steps are larger than what one arrival adds
    fine &= 0 <= words[at.Head.choice] < at.CHOICE_WORDS
    return bool(fine and (words[at.Head.half_life] == NONE or 2 <= words[at.Head.half_life] < HIGH))


def _tuned(words: np.ndarray, plan: Plan) -> bool:
    """The search for the initial credit (tuner.py)."""
    trial, left, start, span, initial = words[
        [at.Head.trial, at.Head.trial_left, at.Head.trial_start, at.Head.trial_span, at.Head.initial]
    ].tolist()
    if not plan.keeps("credits") or plan.shedding.start != at.START_TUNED:
        return (trial, left, start, span, initial) == (0, 0, 0, 0, FIRST_TRIAL)
    step = max(int(words[at.Head.seq]), tuner.LEAST_SPAN)  # no more residents than rows taken
    fine = 0 <= initial < at.TRIALS and 0 <= trial < tuner.ROUNDS * tuner.ROUND
    fine = fine and 0 <= span <= (tuner.PATIENCE + 1) * step and 0 <= left <= max(span, step)
    return fine and 0 <= start <= int(words[at.Head.matched if trial % 2 else at.Head.seq])


def _judged(words: np.ndarray, plan: Plan) -> bool:
    """When residents were looked at, and whether prospects rank them (policies/prospects.py)."""
    judging, looks, looked, ahead, clock = words[
        [at.Head.judging, at.Head.looks, at.Head.looked, at.Head.look_next, at.Head.looked_clock]
    ].tolist()
    faded = float(words.view(np.float64)[at.Head.faded])
    if looks == 0 or not judges(plan):
        return (judging, looks, looked, ahead, clock, faded) == (0, 0, 0, 0, 0, 0.0)
    fine = judging in (0, 1) and 0 < looks <= looked <= words[at.Head.arrivals] and looked < ahead < HIGH
    return bool(fine and LOW <= clock <= words[at.Head.clock] and np.isfinite(faded))


def _sampled(floats: np.ndarray) -> bool:
    """The share of rows that an estimate of recall stores (Tracker._halve): halved some times, or all are."""
    share, weight = floats[[at.Head.sample_share, at.Head.sample_weight]].tolist()
    if share == 0.0:
        return weight == 0.0
    return 0.0 < share < 1.0 and np.frexp(share)[0] == 0.5 and weight == 1.0 / share


def lines(words: np.ndarray, found: np.ndarray) -> bool:
    """The streams' lines, beside the head."""
    counters = found[:, [at.EXPIRED, at.RELEASED, at.SHED, at.SAMPLED, at.Stream.rank, at.Stream.demoted]]
    fine = bool(((counters >= 0) & (counters < HIGH)).all()) and bool((found[:, at.SAMPLED] <= found[:, at.SHED]).all())
    fine &= int(counters[:, 4].sum()) == words[at.Head.arrivals]  # count_row raises both
    looked = found[:, at.Stream.looked_rank]
    fine &= bool(((looked >= 0) & (looked <= found[:, at.Stream.rank])).all())  # prospects.look
    left = found[:, [at.SHED, at.RELEASED]].sum()  # policies/rand.py; a No row that makes room is released
    fine &= words[at.Head.random] <= int(left)
    last = found[:, at.Stream.last_time]
    fine &= int(last.max()) == words[at.Head.clock]  # move_clock
    return bool(fine) and _seen(words, found)


def _seen(words: np.ndarray, found: np.ndarray) -> bool:
    """The sampler's fading counts of arrivals (sampler.see)."""
    first, last = found[:, at.Stream.seen_first], found[:, at.Stream.seen_last]
    seen = found[:, at.Stream.seen].copy().view(np.float64)
    fine = (first <= last) & (last <= words[at.Head.clock]) & (seen >= 0.0) & (seen <= found[:, at.Stream.rank])
    never = (first == LOW) & (last == LOW) & (seen == 0.0)
    return bool((fine | never).all())


# ------------------------------------------------------------------------------------------------ tables


def table(name: str, found: np.ndarray, plan: Plan) -> bool:
    """A table whose size the query fixes, by the name of its column."""
    if name == "hists":
        return hists(found, plan)
    if name == "sketch":
        return sketch(found, plan)
    own = {"life": life, "ages": ages}
    return own[name](found) if name in own else found.dtype == np.int64 or _counted(found)


def tally(found: np.ndarray, most: int) -> bool:
    """Visits, and candidates let through: no more than there can be matches."""
    return bool(((found >= 0) & (found <= most)).all())


def hists(found: np.ndarray, plan: Plan) -> bool:
    """Histograms: where they lie, and Fenwick trees of what was counted, which is never less than nothing.

    With products of values a count may be infinite, and sums and differences of such counts may be no numbers.
    """
    low, step, total, tree = (
        found[:, at.Histogram.low],
        found[:, at.Histogram.step],
        found[:, at.Histogram.total],
        found[:, at.H_TREE :],
    )
    empty = ~found.any(axis=1)
    fine = (step >= LEAST_STEP) & (step <= LARGEST) & (np.abs(low) <= LARGEST)
    if not bool((empty | fine).all()) or found[:, at.Histogram.is_float].any():
        return False
    if plan.value == "product" and not np.isfinite(found).all():
        return not bool((tree < 0.0).any() or (total < 0.0).any())
    if not bool(np.isfinite(found).all() and (tree >= 0.0).all() and (tree[:, 0] == 0.0).all()):
        return False
    if plan.value != "product" and not bool((total <= MOST).all()):
        return False
    return bool((np.abs(tree[:, at.BINS] - total) <= 0.01 * total).all())  # apart from rounding they are the same sum


def life(found: np.ndarray) -> bool:
    """Departures, and the mean time that rows were held (policies/life_expected.py): clocks do not run backwards."""
    return _counted(found) and bool((found[:, 0::2] <= 1024.0).all())


def sketch(found: np.ndarray, plan: Plan) -> bool:
    """Counters, which only rise (sketch.sketch_add); those of worths may be infinite, as values may."""
    counts = found[0::2] if plan.value is not None else found
    return _counted(counts) and bool((found >= 0.0).all())


def credit(found: np.ndarray, most: int, seq: int) -> bool:
    """Where the levels of credits begin and how wide they are (levels.py), the highest credit, admissions seen."""
    low, shift, top, seen = (found[:, k] for k in (at.Credit.low, at.Credit.shift, at.Credit.top, at.Credit.seen))
    fine = (low >= 0) & (low <= most) & (shift >= 0) & (shift < 53) & (top >= 0) & (top <= most)
    return bool((fine & (seen >= 0) & (seen <= seq)).all())


def ages(found: np.ndarray) -> bool:
    """The age up to which rows pay, a number of bins, and what was seen at which age (age.estimate)."""
    limit = found[:, at.A_LIMIT] * at.AGE_BINS
    return _counted(found) and bool(((limit >= 1.0) & (limit <= at.AGE_BINS) & (limit == np.floor(limit))).all())


def oracle(codes: np.ndarray, starts: np.ndarray, counts: list[np.ndarray]) -> bool:
    """Lines by directory, which are searched by halves: sorted by code, each once."""
    if starts[0] != 0 or starts[-1] != len(codes) or (np.diff(starts) < 0).any():
        return False
    later = codes[1:] > codes[:-1]
    later[starts[(starts > 0) & (starts < len(codes))] - 1] = True
    return bool(later.all()) and all(_counted(column) for column in counts)


def _counted(found: np.ndarray) -> bool:
    """Whether numbers can be sums of weights."""
    return bool(((found >= 0.0) & (found <= MOST)).all())


# ------------------------------------------------------------------------------------------- rows and keys


def ages_in_order(line: np.ndarray, time: np.ndarray, seq: np.ndarray, clock: int) -> bool:
    """Residents in the order of their age list (chains.age_place), none later than the stream's last row."""
    later = seq[1:] > seq[:-1]
    if line[at.Stream.last_rows] == 0:
        later = (time[1:] > time[:-1]) | ((time[1:] == time[:-1]) & later)
    return bool(later.all()) and time.min() > LOW and time.max() <= line[at.Stream.last_time] <= clock


def ranks(line: np.ndarray, rank: np.ndarray) -> bool:
    """Residents' numbers among the rows of their stream; in a window of rows they rise, and are inside (expire)."""
    first, seen = int(line[at.Stream.rank]) - int(line[at.Stream.last_rows]), line[at.Stream.rank]
    if rank.min() < 0 or rank.max() >= seen:
        return False
    return line[at.Stream.last_rows] == 0 or (bool((rank[1:] > rank[:-1]).all()) and rank.min() >= first)


def departures(found: np.ndarray, words: np.ndarray) -> bool:
    """The numbers at which the join beside has lost a sample of the rows (recall.py); zeros where all are stored."""
    if words[at.Head.sample_share] == 0:
        return not found.any()
    return bool((((found >= 0) & (found <= words[at.Head.seq])) | (found == HIGH)).all())


def all_different(seqs: list[np.ndarray], words: np.ndarray) -> bool:
    """Sequence numbers below the next one, each once: residents are found by them (live_columns.by_arrival)."""
    together = np.sort(np.concatenate(seqs), kind="stable")  # mostly a few rising runs, which are merged
    if len(together) == 0:
        return True
    return bool((together[1:] > together[:-1]).all()) and together[0] >= 0 and together[-1] < words[at.Head.seq]


def frequencies(found: np.ndarray) -> bool:
    """How often keys arrive."""
    return _counted(found)


def credits_of(base: np.ndarray, gained: np.ndarray, most: int) -> bool:
    """Credits are whole numbers that are not negative: the sum of what a row started with and what its key gained."""
    credits = base + gained
    return bool(((credits >= 0.0) & (credits <= most) & (base == np.floor(base))).all())


def gained(found: np.ndarray, filed: np.ndarray, residents: np.ndarray, seq: int) -> bool:
    """What the residents of keys have gained, and what levels know of it (greedy_dual.pay_key): nothing without any."""
    fine = (found >= filed) & (filed >= 0.0) & (found <= seq)
    whole = (found == np.floor(found)) & (filed == np.floor(filed))
    return bool((fine & whole & ((residents > 0) | (found == 0.0))).all())


def leaves(found: np.ndarray) -> bool:
    """Ends and turns of leaves (ranked.set_leaf): clocks and lengths are finite."""
    return bool(np.isfinite(found).all())


def joins_of_rows(bits: np.ndarray, stream: int, plan: Plan) -> bool:
    """In which of several joins rows can match: those of their stream, and one at least (prepare.rows_of)."""
    mine = sum(1 << join for join, streams in enumerate(plan.members) if stream in streams)
    return bool(((bits != 0) & (bits & ~np.int64(mine) == 0)).all())
