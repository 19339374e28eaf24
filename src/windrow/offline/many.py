"""Joins of three and more streams: a bound that no schedule can pass, and a schedule below it.

A match needs all of its rows at once, which no flow can say. So each event of a match (see matches.py) is given a share
of its worth, the shares of a match adding up to the whole, and the optimum of the flow that gains share by share is a
bound: a schedule that gives a match gains all of its shares, and one that holds only some of its rows gains more than
it should. Any shares give a bound; moving them from rows that are held to rows that are not makes it tighter (a
subgradient of the bound, by multiplicative weights). Each flow's schedule is feasible, and what it really gains is
counted match by match.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from windrow.offline.instance import Instance
from windrow.offline.schedule import gain_of

TURNS = 12
STEP = 0.8  # of the first turn; later ones are smaller

Solver = Callable[[Instance], tuple[np.ndarray, float]]


def bounded(instance: Instance, solve: Solver) -> tuple[float, float, np.ndarray]:
    """What no schedule can pass, what a schedule gains, and the schedule; `solve` finds the best flow and its gain."""
    events = instance.events
    worth = np.maximum(events.worth, 0.0)[events.match]  # what is worth less than nothing is left out: still a bound
    share = 1.0 / events.shares
    bound, value, until = np.inf, -np.inf, instance.instant
    for turn in range(TURNS):
        held, most = solve(replace(instance, gain=worth * share))
        gained = gain_of(instance, held)
        bound = min(bound, most)
        if gained > value:
            value, until = gained, held
        if bound - value <= 1e-9 * max(1.0, abs(bound)):
            break
        share *= np.exp(-STEP / np.sqrt(turn + 1.0) * (events.instant <= held[events.row]))
        share /= np.bincount(events.match, weights=share, minlength=len(events.worth))[events.match]
    if np.array_equal(events.worth, np.rint(events.worth)):
        bound = float(np.floor(bound + 1e-6))  # no schedule gains a part of a match
    return bound, value, until
