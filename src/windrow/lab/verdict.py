"""Verdicts: whether what was measured is what a paper claims, decided from the figures and nothing else.

A claim has parts, and each part is a `Check`: it holds, it does not, or the intervals are too wide to say (None). A
bound that none of five or more runs keeps does not hold, however wide the interval. One part that fails makes the
verdict *differs*; else one that cannot be told makes it *cannot be told*; else it *matches*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from windrow.lab.figures import Figures, Mean, Measure, span

Truth = bool | None

ENOUGH = 5  # runs that all miss a bound are no chance

MATCHES, DIFFERS, UNKNOWN = "matches", "differs", "cannot be told"

Cells = Sequence[tuple[str, Figures]]


@dataclass(frozen=True)
class Check:
    """One part of a claim: what is claimed, whether it holds, and the figures that say so.

    `why` is the reason, as far as it was measured too. An `aside` is told beside the verdict and has no part in it:
    what the paper does not claim.
    """

    claim: str
    holds: Truth
    found: str
    aside: bool = False
    why: str = ""


@dataclass(frozen=True)
class Verdict:
    """What became of a claim."""

    word: str
    because: str = ""

    def __str__(self) -> str:
        return f"{self.word}, because {self.because}" if self.because else self.word


def verdict(checks: Sequence[Check], quick: bool = False) -> Verdict:
    """The verdict on the parts of a claim; a quick run is not the paper's setting, and proves nothing."""
    if quick:
        return Verdict(UNKNOWN, "this was a quick run, in a smaller setting than the paper's")
    parts = [check for check in checks if not check.aside]
    if failed := [check for check in parts if check.holds is False]:
        return Verdict(DIFFERS, _reasons(failed))
    if unclear := [check for check in parts if check.holds is None]:
        return Verdict(UNKNOWN, "the runs spread too far: " + _reasons(unclear))
    return Verdict(MATCHES)


def _reasons(checks: Iterable[Check]) -> str:
    told = [(f'"{check.claim}" is measured as {check.found}', check.why) for check in checks]
    return "; ".join(f"{found} ({why})" if why else found for found, why in told)


# ---------------------------------------------------------------------------------------------- comparing


def above(mean: Mean, bound: float) -> Truth:
    """Whether a mean is at least `bound`: None where its interval has the bound inside."""
    return True if mean.low >= bound else False if mean.high < bound else None


def below(mean: Mean, bound: float) -> Truth:
    """Whether a mean is at most `bound`."""
    return True if mean.high <= bound else False if mean.low > bound else None


def between(mean: Mean, low: float, high: float) -> Truth:
    """Whether a mean lies between two bounds."""
    return every((above(mean, low), below(mean, high)))


def every(truths: Iterable[Truth]) -> Truth:
    """Whether all hold: False if one does not, else None if one cannot be told."""
    known = list(truths)
    return False if False in known else None if None in known else True


def at_least(claim: str, cells: Cells, measure: Measure, bound: float, form: str = ".1%") -> Check:
    """A check that a measure is at least `bound` in every cell."""
    return _bounded(claim, cells, measure, lambda mean: above(mean, bound), form)


def at_most(claim: str, cells: Cells, measure: Measure, bound: float, form: str = ".1%") -> Check:
    """A check that a measure is at most `bound` in every cell."""
    return _bounded(claim, cells, measure, lambda mean: below(mean, bound), form)


def inside(claim: str, cells: Cells, measure: Measure, low: float, high: float, form: str = ".1%") -> Check:
    """A check that a measure lies between two bounds in every cell."""
    return _bounded(claim, cells, measure, lambda mean: between(mean, low, high), form)


def always(claim: str, cells: Cells, measure: Measure, bound: float) -> Check:
    """A check that a measure is at least `bound` in every single run: for what holds by its nature, not on average."""
    least = min(part.least(measure) for _, part in cells)
    return Check(claim, least >= bound, f"{span(cells, measure)}, {least:.1%} in the worst run")


def tell(what: str, cells: Cells, measure: Measure, form: str = ".1%") -> Check:
    """An aside: what a measure was, with nothing claimed of it."""
    return Check(what, None, span(cells, measure, form), aside=True)


def _bounded(claim: str, cells: Cells, measure: Measure, holds: Callable[[Mean], Truth], form: str) -> Check:
    return Check(claim, every(_truth(part, measure, holds) for _, part in cells), span(cells, measure, form))


def _truth(part: Figures, measure: Measure, holds: Callable[[Mean], Truth]) -> Truth:
    """Whether the mean of a cell keeps a bound. Where its interval is too wide to say, and there are enough runs, it
    does not if no run does: if half of all runs kept it, five would all miss it once in 32 times."""
    truth = holds(part.mean(measure))
    if truth is None:
        runs = part.runs(measure)
        if len(runs) >= ENOUGH and not any(holds(Mean(run, run, run)) for run in runs):
            return False
    return truth
