"""Variable memory: what one shared memory gains over two halves, and which stream gets more of it."""

from __future__ import annotations

from collections.abc import Iterator

from windrow.lab.experiment import Conditions, Experiment, Point
from windrow.lab.figures import Figures, Measure, Row
from windrow.lab.pictures import Panel
from windrow.lab.verdict import Check, always, at_least, at_most, inside
from windrow.lab.zipf_joins import PAPER, matches, output, ratio, shares, zipf_join

LINES = ("EXACT", "OPT", "OPTV", "PROB", "PROBV", "RAND", "RANDV")
EQUAL, UNEQUAL = "Zipf(1) x Zipf(1)", "Zipf(1) x uniform"
STREAMS = {EQUAL: (1.0, 1.0), UNEQUAL: (1.0, 0.0)}
LOOKS = 70  # at the shares while the streams run

NEVER_WORSE = 0.99  # of the split variant: less is noise
ALIKE = (0.95, 1.05)
GAIN = 0.1
SKEWED_SHARE = (0.75, 0.85)
HALF = (0.45, 0.55)


def sweep(conditions: Conditions) -> list[Point]:
    """Both kinds of streams: the output at all budgets, and the shares while the streams run, with M = w."""
    matched = [{"part": "output", "streams": s, "share": m} for s in STREAMS for m in shares(conditions)]
    return [*matched, *({"part": "memory", "streams": s, "share": 1.0} for s in STREAMS)]


def measure(point: Point, seed: int, conditions: Conditions) -> Iterator[Row]:
    """Matches of every line; or the left stream's part of the memory over time."""
    pair = zipf_join(conditions, seed, STREAMS[point["streams"]])
    if point["part"] == "output":
        yield matches(pair, point["share"], seed, LINES)
        return
    memory = round(point["share"] * pair.window)
    steps = pair.left.num_rows // LOOKS
    prob, rand = (dict(pair.shares(policy, memory, steps, seed)) for policy in ("prob", "rand"))
    for t in prob:
        yield {"M": memory, "t": t, "warm": t < pair.warm_up, "PROBV": prob[t], "RANDV": rand[t]}


def judge(found: Figures) -> list[Check]:
    """Never worse, alike on equal streams, some better on unequal ones, memory where the skew is."""
    matched = found.where(part="output")
    every = list(matched.cells("streams", "M"))
    equal, unequal = (list(matched.where(streams=s).cells("M")) for s in (EQUAL, UNEQUAL))
    memory = found.where(part="memory", warm=False)
    return [
        always("OPTV is never below OPT", every, ratio("OPTV", "OPT"), 1.0),
        at_least("PROBV is never below PROB (by more than 1 %)", every, ratio("PROBV", "PROB"), NEVER_WORSE),
        inside("equal streams: PROBV gives what PROB gives, to 5 %", equal, ratio("PROBV", "PROB"), *ALIKE),
        inside("equal streams: OPTV gives what OPT gives, to 5 %", equal, ratio("OPTV", "OPT"), *ALIKE),
        at_most("unequal streams: PROBV gains at most 10 % of EXACT", unequal, _gain("PROBV", "PROB"), GAIN),
        at_most("unequal streams: OPTV gains at most 10 % of EXACT", unequal, _gain("OPTV", "OPT"), GAIN),
        at_most("unequal streams: PROBV gives at most 10 % more than PROB", unequal, ratio("PROBV", "PROB"), 1 + GAIN),
        inside(
            "unequal streams: the skewed one gets 75 to 85 % of the memory, M = w",
            list(memory.where(streams=UNEQUAL).cells("streams")), "PROBV", *SKEWED_SHARE,
        ),
        inside("equal streams: each gets half", list(memory.where(streams=EQUAL).cells("streams")), "PROBV", *HALF),
    ]  # fmt: skip


def _gain(line: str, split: str) -> Measure:
    return lambda row: (row[line] - row[split]) / row["EXACT"]


def draw(found: Figures) -> list[Panel]:
    """Output over memory, and the share of the left stream over time, for both kinds of streams."""
    matched = [output(s, found.where(part="output", streams=s), LINES) for s in STREAMS]
    memory = [
        Panel(
            f"{s}, M = w", "step", "left stream's share of memory",
            {line: found.curve("t", line, part="memory", streams=s) for line in ("PROBV", "RANDV")}, percent=True,
        )
        for s in STREAMS
    ]  # fmt: skip
    return [*matched, *memory]


EXPERIMENT = Experiment(
    id="variable-memory",
    paper=PAPER,
    place="figs 13 to 16 of the technical report",
    claim="Shared memory is never worse, up to 10 % better where skews differ; the skewed stream gets 75 to 85 % of it",
    setting="5,600 rows a stream, 50 keys, w = 400, M = 0.1 to 1.5 w split evenly and shared (V), warm-up 2w, oracle",
    sweep=sweep, measure=measure, judge=judge, draw=draw,
)  # fmt: skip
