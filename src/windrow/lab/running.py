"""Running an experiment: measure, judge, draw, and write down what came out.

<id>.csv     every row that was measured
<id>.png     the picture
<id>.json    the verdict with the figures it rests on, the setting, the seeds and the time
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from windrow.errors import InputError
from windrow.lab import pictures
from windrow.lab.experiment import Conditions, Experiment
from windrow.lab.figures import Figures
from windrow.lab.verdict import Check, Verdict, verdict


@dataclass(frozen=True)
class Outcome:
    """An experiment that was run."""

    experiment: Experiment
    conditions: Conditions
    figures: Figures
    checks: tuple[Check, ...]
    verdict: Verdict
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """The verdict and what it rests on, as plain data."""
        experiment, conditions = self.experiment, self.conditions
        return {
            "id": experiment.id,
            "paper": experiment.paper,
            "place": experiment.place,
            "claim": experiment.claim,
            "setting": setting(experiment, conditions),
            "source": experiment.source(conditions),
            "quick": conditions.quick,
            "data": conditions.data is not None and experiment.real,
            "seeds": list(range(experiment.repeats(conditions))),
            "verdict": self.verdict.word,
            "because": self.verdict.because,
            "checks": [asdict(check) for check in self.checks],
            "rows": len(self.figures.rows),
            "seconds": round(self.seconds, 1),
        }


def setting(experiment: Experiment, conditions: Conditions) -> str:
    """What is run, in a line."""
    return f"a smaller version of: {experiment.setting}" if conditions.quick else experiment.setting


def work(experiment: Experiment, conditions: Conditions) -> int:
    """How many measurements a run takes."""
    return len(experiment.sweep(conditions)) * experiment.repeats(conditions)


def warm_up(experiment: Experiment, conditions: Conditions) -> None:
    """Measure one small point, so that kernels are compiled before any clock or progress bar runs."""
    small = replace(conditions, quick=True)
    for _ in experiment.measure(experiment.sweep(small)[0], 0, small):
        pass


def run(experiment: Experiment, conditions: Conditions, done: Callable[[], None] = lambda: None) -> Outcome:
    """Measure every point under every seed, and judge; `done` is called after each measurement."""
    start = perf_counter()
    rows = []
    for point in experiment.sweep(conditions):
        for seed in range(experiment.repeats(conditions)):
            rows += [{**point, "seed": seed, **row} for row in experiment.measure(point, seed, conditions)]
            done()
    figures = Figures(rows)
    checks = tuple(experiment.judge(figures))
    seconds = perf_counter() - start
    return Outcome(experiment, conditions, figures, checks, verdict(checks, conditions.quick), seconds)


def check_folder(folder: Path) -> None:
    """Make the folder of results, or refuse it before any work is done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: no folder can be made here: {error.strerror or error}") from error
    pictures.check(folder / "any.png")


def write(outcome: Outcome, folder: Path) -> None:
    """Write the three files; the verdict comes last, so that one that is there has its figures beside it."""
    experiment = outcome.experiment
    outcome.figures.write_csv(folder / f"{experiment.id}.csv")
    bands = " Bands: 95 % intervals of the mean over seeds." if experiment.repeats(outcome.conditions) > 1 else ""
    note = f"{setting(experiment, outcome.conditions)}; {experiment.source(outcome.conditions)}.{bands}"
    title = f"{experiment.id}: {experiment.claim}"
    pictures.panels(experiment.draw(outcome.figures), folder / f"{experiment.id}.png", title, note)
    path = folder / f"{experiment.id}.json"
    hidden = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        hidden.write_text(json.dumps(outcome.to_dict(), indent=1, allow_nan=False) + "\n", encoding="utf-8")
        hidden.replace(path)
    except OSError as error:
        raise InputError(f"{path}: writing failed: {error.strerror or error}") from error
    finally:
        hidden.unlink(missing_ok=True)
