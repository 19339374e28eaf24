"""Domain size: with more keys PROB falls behind OPT, while OPT comes near the exact join."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from windrow.lab.experiment import Conditions, Experiment, Point
from windrow.lab.figures import Figures, Measure, Row
from windrow.lab.pictures import Panel
from windrow.lab.verdict import Check, above, at_least, every
from windrow.lab.zipf_joins import PAPER, matches, ratio, shares, zipf_join

LINES = ("EXACT", "OPT", "PROB", "RAND")
DOMAINS = (10, 50, 200)

LEVEL = 0.005  # a change that is smaller, either way, is none
MEETS = 0.99  # of EXACT


def sweep(conditions: Conditions) -> list[Point]:
    """All domains at all budgets."""
    return [{"keys": keys, "share": share} for keys in DOMAINS for share in shares(conditions)]


def measure(point: Point, seed: int, conditions: Conditions) -> Iterator[Row]:
    """Matches of every line."""
    yield matches(zipf_join(conditions, seed, (1.0, 1.0), keys=point["keys"]), point["share"], seed, LINES)


def judge(found: Figures) -> list[Check]:
    """Falling, rising, meeting."""
    return [
        _rises("PROB / OPT falls as keys become more", found, ratio("PROB", "OPT"), -1),
        _rises("OPT / EXACT rises as keys become more", found, ratio("OPT", "EXACT"), 1),
        at_least(
            "with 200 keys OPT meets EXACT (99 % of it) at M = w",
            list(found.where(keys=200, share=1.0).cells("keys", "M")), ratio("OPT", "EXACT"), MEETS, form=".2%",
        ),
    ]  # fmt: skip


def _rises(claim: str, found: Figures, measure: Measure, sign: int) -> Check:
    """Whether a measure goes up (or down, sign -1) from domain to domain at every budget, where it changes at all."""

    def signed(row: Row) -> float:
        return sign * float(measure(row)) if callable(measure) else sign * float(row[measure])

    budgets = found.distinct("share")
    truths = [
        above(found.step(signed, {"keys": one, "share": m}, {"keys": two, "share": m}), -LEVEL)
        for m in budgets for one, two in pairwise(DOMAINS)
    ]  # fmt: skip
    ends = [
        f"M = {m:g} w: " + ", ".join(f"{found.mean(measure, keys=keys, share=m):.1%}" for keys in DOMAINS)
        for m in budgets
    ]
    return Check(claim, every(truths), f"with {', '.join(map(str, DOMAINS))} keys at {'; '.join(ends)}")


def draw(found: Figures) -> list[Panel]:
    """The shares of OPT over memory, a panel for each domain."""
    return [
        Panel(
            label, "memory, windows", "share of OPT",
            {line: part.curve("share", ratio(line, "OPT")) for line in ("EXACT", "PROB", "RAND")},
            log_y=True, percent=True,
        )
        for label, part in found.cells("keys")
    ]  # fmt: skip


EXPERIMENT = Experiment(
    id="domain-size",
    paper=PAPER,
    place="figs 17 to 19 of the technical report",
    claim="With more keys PROB / OPT falls and OPT / EXACT rises; at 200 keys OPT meets EXACT at M = w",
    setting="5,600 rows a stream, uncorrelated Zipf(1), 10 to 200 keys, w = 400, M split evenly, warm-up 2w, oracle",
    sweep=sweep, measure=measure, judge=judge, draw=draw,
)  # fmt: skip
