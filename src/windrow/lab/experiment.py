"""Experiment: one figure or table of a paper, to be run again.

A module in `experiments/` describes one in a few functions and gives them to an `Experiment` called EXPERIMENT; what is
there is found by itself.

    sweep      the points at which something is measured, each a dictionary of parameters
    measure    the rows that one point gives under one seed
    judge      the checks that the rows allow (verdict.py)
    draw       the panels of the picture (pictures.py)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from windrow.errors import SpecError, alternatives
from windrow.lab.figures import Figures, Row
from windrow.lab.pictures import Panel
from windrow.lab.verdict import Check

Point = dict[str, Any]


@dataclass(frozen=True)
class Conditions:
    """Under what an experiment is run: how large, under how many seeds, and on what data."""

    quick: bool = False
    seeds: int | None = None
    data: Path | None = None


def _generated(conditions: Conditions) -> str:
    return "generated streams"


@dataclass(frozen=True)
class Experiment:
    """One figure or table of a paper: what it claims, and how to find out.

    `place` is where in the paper it stands, `setting` says in a line what is run, `source` on what. `seeds` is how
    often each point is measured: once where nothing is random. `real` says that it reads the data directory.
    """

    id: str
    paper: str
    place: str
    claim: str
    setting: str
    sweep: Callable[[Conditions], Sequence[Point]]
    measure: Callable[[Point, int, Conditions], Iterable[Row]]
    judge: Callable[[Figures], Sequence[Check]]
    draw: Callable[[Figures], Sequence[Panel]]
    source: Callable[[Conditions], str] = _generated
    seeds: int = 5
    real: bool = False

    def repeats(self, conditions: Conditions) -> int:
        """How often each point is measured."""
        if self.seeds == 1:
            return 1
        return conditions.seeds or (2 if conditions.quick else self.seeds)


@cache
def experiments() -> dict[str, Experiment]:
    """All experiments by id, in the order of the papers."""
    from windrow.lab import experiments as folder

    found = [import_module(f"{folder.__name__}.{module.name}").EXPERIMENT for module in iter_modules(folder.__path__)]
    return {experiment.id: experiment for experiment in sorted(found, key=lambda e: (e.paper, _number(e.place), e.id))}


def _number(place: str) -> int:
    """The first number in the name of a place: of several figures, the first."""
    found = re.search(r"\d+", place)
    return int(found[0]) if found else 0


def find(name: str) -> Experiment:
    """The experiment of that id, or an error that lists them."""
    known = experiments()
    if name not in known:
        raise SpecError(f"the lab has no experiment {name!r}{alternatives(name, known, 'experiments')}")
    return known[name]
