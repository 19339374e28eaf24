"""What the experiments on joins of two Zipf streams share: sizes, budgets, and one measurement.

As in section 5.2 of "Semantic Approximation of Data Stream Joins": 5,600 rows a stream, one of each per step, matches
counted after a warm-up of two windows, memory in parts of a window (twice the window, less two rows, is exact), and
policies that are told the frequencies of the whole streams.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from windrow.lab.experiment import Conditions
from windrow.lab.figures import Figures, Measure, span
from windrow.lab.generators import zipf_pair
from windrow.lab.joins import Pair
from windrow.lab.pictures import Panel
from windrow.lab.verdict import Cells
from windrow.policies import Policy, Prob
from windrow.statistics import Running

PAPER = "Semantic Approximation of Data Stream Joins"
ROWS, WINDOW, KEYS = 5_600, 400, 50
SHARES = (0.1, 0.25, 0.5, 1.0, 1.5)
SMALLER = 8  # by what quick runs are cut

POLICIES: dict[str, str | Policy] = {
    "PROB": "prob",
    "PROB online": Prob(statistics=Running()),  # which knows only the past
    "LIFE": "life",
    "LIFE-EXPECTED": "life-expected",
    "RAND": "rand",
}
ONLINE = "PROB online"


def shares(conditions: Conditions) -> Sequence[float]:
    """The budgets, in windows."""
    return (0.25, 1.0) if conditions.quick else SHARES


def zipf_join(
    conditions: Conditions,
    seed: int,
    z: tuple[float, float],
    correlation: str = "uncorrelated",
    window: int = WINDOW,
    keys: int = KEYS,
) -> Pair:
    """The join of two Zipf streams; smaller in all its lengths where it shall be quick."""
    cut = SMALLER if conditions.quick else 1
    left, right = zipf_pair(ROWS // cut, keys, z[0], z[1], correlation, seed)
    return Pair(left, right, window // cut, 2 * (window // cut))


def matches(pair: Pair, share: float, seed: int, lines: Iterable[str]) -> dict[str, float]:
    """Matches by line at one budget: EXACT, OPT, or a policy; a V at the end is the same in one shared memory."""
    memory = max(2, round(share * pair.window))
    found: dict[str, float] = {"M": memory}
    for line in lines:
        name, split = line.removesuffix("V"), not line.endswith("V")
        if name == "EXACT":
            found[line] = pair.exact()
        elif name == "OPT":
            found[line] = pair.optimum(memory, split, "exact").value
        else:
            found[line] = pair.matched(POLICIES[name], memory, split, seed)
    return found


def ratio(top: str, bottom: str) -> Measure:
    """One line over another, run by run."""
    return lambda row: float(row[top]) / float(row[bottom])


def way(line: str) -> Measure:
    """How far a line is on the way from RAND (0) to OPT (1)."""
    return lambda row: (float(row[line]) - row["RAND"]) / (float(row["OPT"]) - row["RAND"])


def peak(pair: Pair) -> float:
    """How much more frequent than the mean the most frequent key of either stream is, as drawn."""
    counts = (np.unique(table["k"].to_numpy(), return_counts=True)[1] for table in (pair.left, pair.right))
    return float(max(count.max() / count.mean() for count in counts))


def by_chance(cells: Cells) -> str:
    """What PROB gains on streams that are uniform but for chance, and what of that it gains without looking ahead."""
    drawn = Figures([row for _, part in cells for row in part.rows]).mean("peak")
    return (
        f"as drawn, the most frequent key has {drawn:.2f} times the mean frequency, and PROB is told so beforehand; "
        f"with statistics of the past alone it gives {span(cells, ratio(ONLINE, 'RAND'))} of RAND"
    )


def output(title: str, found: Figures, lines: Iterable[str]) -> Panel:
    """Matches over memory, line by line, as shares of the exact join: its size differs more by seed than all else."""
    curves = {line: found.curve("M", ratio(line, "EXACT")) for line in lines if line != "EXACT"}
    return Panel(title, "memory M, rows", "matches, share of EXACT", curves, percent=True)
