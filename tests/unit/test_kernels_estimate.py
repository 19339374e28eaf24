"""Can catch: counts that fade wrongly or are lost when all are scaled down, sketches that hash or rise wrongly,
histograms that lose mass when they widen, oracle lines not found, and held times filed under the wrong score."""

import math
from collections import defaultdict
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from numba import njit
from tests.unit.blocks import block_of, plan_of

from windrow.kernels import layout as at
from windrow.kernels import maintenance
from windrow.kernels.directory import add, find
from windrow.kernels.hooks import hooks
from windrow.kernels.memory import memory_of
from windrow.kernels.places import chain, histogram_at, key_at
from windrow.kernels.policies.life_expected import life_expected, life_learn
from windrow.kernels.statistics.counts import fade, learn_key, start_key, worth_at
from windrow.kernels.statistics.histogram import hist_learn, hist_share
from windrow.kernels.statistics.oracle import oracle_line
from windrow.state import block as blocks
from windrow.state.parts import Capacity, view
from windrow.state.plan import Learning

ARRIVE, HIST, SHARE, HELD, EXPECT, ORACLE = range(6)
WORD = 2**64 - 1


@njit
def replay(h, block, ops, floats, answers):
    """Do all operations on directory 0, histogram 0 and the held times of a stream."""
    m = memory_of(block)
    line = histogram_at(m, 0)
    for k in range(ops.shape[0]):
        kind, stream, code = ops[k]
        a, b = floats[k]
        if kind == ARRIVE:
            key = find(m, 0, code)
            if key < 0:
                key = add(m, 0, code)
                start_key(m.w, 0, key, code)
            learn_key(h, m, 0, key, stream, code, a)
            record = key_at(m, 0, key)
            answers[k, 0] = chain(record, stream).freq / m.head.weight
            if m.valued:
                answers[k, 1] = m.x[worth_at(m, record, stream)] / m.head.weight
            if m.head.growth != 1.0:
                answers[k, 2] = fade(h, m)
        elif kind == HIST:
            hist_learn(m.w, line, a, b)
        elif kind == SHARE:
            answers[k, 0] = hist_share(m.w, line, a, b)
        elif kind == HELD:
            life_learn(m.w, stream, a, b)
        elif kind == EXPECT:
            answers[k, 0] = life_expected(m.w, stream, a, b)
        else:
            place = oracle_line(m.w, 0, code)
            answers[k, 0] = -1.0 if place < 0 else m.x[place + 1]


def run(block, ops):
    """The answers to operations (kind, stream, code, a, b)."""
    answers = np.zeros((len(ops), 3))
    numbers, floats = np.array([op[:3] for op in ops], np.int64), np.array([op[3:] for op in ops], float)
    replay(hooks("prob"), block, numbers, floats, answers)
    return answers


def arrivals(random, count, streams=2, codes=30):
    return [
        (ARRIVE, random.randrange(streams), int(codes * random.random() ** 2), random.randrange(1, 9), 0)
        for _ in range(count)
    ]


@pytest.mark.parametrize("half_life", [None, 1, 50])
@pytest.mark.parametrize("streams", [2, 3])
def test_a_frequency_is_the_sum_of_fading_arrivals(half_life, streams):
    plan = plan_of(streams, rule="prob", learning=Learning(at.STAT_RUNNING, half_life), value="product")
    ops = arrivals(Random(streams), 1200, streams)
    answers = run(block_of(plan), ops)
    seen = defaultdict(list)
    for k, (_, stream, code, gain, _) in enumerate(ops):
        seen[stream, code].append((k, gain))
        fading = [0.5 ** ((k - then) / half_life) if half_life else 1.0 for then, _ in seen[stream, code]]
        worth = sum(f * g for f, (_, g) in zip(fading, seen[stream, code], strict=True))
        assert answers[k, :2] == pytest.approx([sum(fading), worth], rel=1e-9), k
    assert answers[:, 2].sum() == {None: 0, 1: 3 if streams == 2 else 7, 50: 0}[half_life]  # by 2 ** -332


@pytest.mark.parametrize(("half_life", "count"), [(None, 900), (1, 332), (1, 333), (1, 340)])
def test_the_mean_frequency_of_arrivals_is_the_mean_of_the_counts(half_life, count):
    plan = plan_of(3, rule="prob", learning=Learning(at.STAT_RUNNING, half_life))
    block = block_of(plan)
    ops = arrivals(Random(4), count, 3)
    run(block, ops)
    found = view(block, at.Head.means_at, 1, 6).view(np.float64)[0].reshape(3, 2)
    growth = Fraction(plan.learning.growth)  # exact, so nothing needs to be scaled down
    weight = Fraction(1)
    counts, seen = defaultdict(Fraction), defaultdict(list)
    for _, stream, code, _, _ in ops:
        counts[stream, code] += weight
        seen[stream].append(counts[stream, code])
        weight *= growth
    for stream in range(3):
        assert found[stream, 0] == len(seen[stream])
        mean = sum(seen[stream]) / len(seen[stream]) / weight
        assert found[stream, 1] / block.view(np.float64)[at.Head.weight] == pytest.approx(float(mean)), stream


def mix(word):
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & WORD
    return word ^ (word >> 31)


class SketchTwin:
    """Conservative update in lists: every row of counters has one cell per code, and only the lowest cells rise."""

    def __init__(self, depth, width):
        self.cells, self.width = [[0.0] * width for _ in range(depth)], width

    def add(self, code, weight):
        places = [mix((code + (k + 1) * 0x9E3779B97F4A7C15) & WORD) % self.width for k in range(len(self.cells))]
        total = min(row[at] for row, at in zip(self.cells, places, strict=True)) + weight
        for row, place in zip(self.cells, places, strict=True):
            row[place] = max(row[place], total)
        return total


@pytest.mark.parametrize(("width", "depth", "half_life"), [(8, 2, None), (64, 3, None), (16, 4, 1)])
def test_a_sketch_is_its_twin_and_never_below_the_truth(width, depth, half_life):
    learning = Learning(at.STAT_SKETCH, half_life, depth, width)
    plan = plan_of(rule="prob", learning=learning, value="sum")
    ops = arrivals(Random(width), 1200)
    answers = run(block_of(plan), ops)
    twins = {(s, what): SketchTwin(depth, width) for s in range(2) for what in range(2)}
    true = defaultdict(float)
    growth = 2.0 ** (1 / half_life) if half_life else 1.0
    for k, (_, stream, code, gain, _) in enumerate(ops):
        for twin in twins.values() if half_life else ():  # instead of a growing weight, all counters shrink
            twin.cells = [[cell / growth for cell in row] for row in twin.cells]
        true = defaultdict(float, {key: n / growth for key, n in true.items()}) if half_life else true
        true[stream, code] += 1.0
        expected = [twins[stream, 0].add(code, 1.0), twins[stream, 1].add(code, gain)]
        assert answers[k, :2] == pytest.approx(expected, rel=1e-9), k
        assert answers[k, 0] >= true[stream, code] * (1 - 1e-9)


@pytest.mark.parametrize("kind", ["narrow", "drifting up", "drifting down", "wild", "equal"])
def test_a_histogram_knows_mass_up_to_a_bin(kind):
    plan = plan_of(bands=1, directories=0, rule="prob", learning=Learning(at.STAT_RUNNING))
    block, random = block_of(plan), Random(7)
    values = {
        "narrow": lambda k: random.gauss(1000, 1),
        "drifting up": lambda k: k * 3.0 + random.random(),
        "drifting down": lambda k: -(float(k) ** 1.5),
        "wild": lambda k: random.choice([-1, 1]) * 10 ** random.uniform(-5, 12),
        "equal": lambda k: 5.0,
    }[kind]
    learned = [(values(k), random.choice([0.5, 1.0, 3.0])) for k in range(400)]
    run(block, [(HIST, 0, 0, value, weight) for value, weight in learned])
    line = view(block, at.Head.hists_at, 2, at.HIST_SIZE).view(np.float64)[0]
    total = sum(weight for _, weight in learned)
    assert line[at.Histogram.total] == pytest.approx(total)
    bin_width = line[at.Histogram.step]
    spread = [value for value, _ in learned]
    ranges = [sorted(random.choices(spread, k=2)) for _ in range(60)]
    ranges += [[min(spread) - 1, max(spread) + 2 * bin_width], [max(spread) + 2 * bin_width, math.inf]]
    ranges += [[-math.inf, min(spread) - 2 * bin_width], [-math.inf, math.inf]]
    answers = run(block, [(SHARE, 0, 0, *ends) for ends in ranges])[:, 0]
    for (low, high), answer in zip(ranges, answers, strict=True):
        least = sum(w for v, w in learned if low + bin_width <= v < high - bin_width) / total
        most = sum(w for v, w in learned if low - bin_width <= v <= high + bin_width) / total
        assert least - 1e-9 <= answer <= most + 1e-9, (low, high)


def test_a_histogram_counts_no_nan_and_says_one_while_it_knows_nothing():
    plan = plan_of(bands=1, directories=0, rule="prob", learning=Learning(at.STAT_RUNNING))
    block = block_of(plan)
    unknown = [(HIST, 0, 0, value, 1.0) for value in (math.nan, math.inf, -math.inf)]
    assert run(block, [*unknown, (SHARE, 0, 0, 1.0, 2.0)])[-1, 0] == 1.0
    assert run(block, [(HIST, 0, 0, 0.0, 1.0), (SHARE, 0, 0, -1.0, 1.0)])[-1, 0] == pytest.approx(1.0)


def test_held_times_are_means_by_powers_of_two_of_the_score():
    plan = plan_of(rule="life_expected", learning=Learning(at.STAT_RUNNING))
    random, held, ops, expected = Random(1), defaultdict(list), [], []
    for _ in range(2000):
        stream, score = random.randrange(2), random.choice([0.0, 0.3, 0.9, 1.0, 1.9, 2.0, 1e-30, 1e30])
        power = math.floor(math.log2(score)) if score else -64
        bin_ = (stream, min(max(power, -64), 63))
        if random.random() < 0.5:
            time = float(random.randrange(100))
            held[bin_].append(time)
            ops.append((HELD, stream, 0, score, time))
            expected.append(0.0)
        else:
            known, most = held[bin_], random.choice([30.0, 1000.0])
            ops.append((EXPECT, stream, 0, score, most))
            expected.append(min(sum(known) / len(known), most) if len(known) >= 8 else most)
    assert run(block_of(plan), ops)[:, 0] == pytest.approx(expected)


def test_the_oracle_finds_every_code_and_no_other():
    plan = plan_of(rule="prob", learning=Learning(at.STAT_ORACLE))
    random = Random(3)
    codes = sorted({random.choice([-1, 1]) * random.randrange(2**62) for _ in range(200)} | {-(2**63), 2**63 - 1})
    block = blocks.regrown(block_of(plan), plan, Capacity(), oracle_rows=len(codes))
    maintenance.rebuild(plan.hooks, block)
    view(block, at.Head.oracle_start_at, 1, 2)[0] = 0, len(codes)
    lines = view(block, at.Head.oracle_at, len(codes), 5)
    lines[:, 0] = codes
    lines.view(np.float64)[:, 1] = np.arange(len(codes))
    asked = codes + [code + 1 for code in codes[:-1]] + [code - 1 for code in codes[1:]]
    answers = run(block, [(ORACLE, 0, code, 0, 0) for code in asked])[:, 0]
    assert answers.tolist() == [codes.index(code) if code in codes else -1 for code in asked]
