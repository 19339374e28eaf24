"""`windrow lab`: the papers' experiments, run again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from windrow.lab.experiment import Conditions, Experiment
    from windrow.lab.running import Outcome

RESULTS = Path("out/lab")

_IDS = "Experiments, as `windrow lab list` names them, or all."
Ids = Annotated[list[str], typer.Argument(help=_IDS, metavar="ID", show_default=False)]
_DATA = "Directory with the real streams, a folder for each set. Without it, what is installed or generated stands in."
Data = Annotated[Path | None, typer.Option("--data", metavar="DIR", help=_DATA, show_default=False)]
Quick = Annotated[bool, typer.Option("--quick", help="Small streams and few points, in seconds: proves nothing.")]
_SEEDS = "How often each point is measured. Without it, as the experiment asks: 5 in most cases."
Seeds = Annotated[int | None, typer.Option("--seeds", min=1, metavar="N", help=_SEEDS, show_default=False)]
Out = Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder of the results.")]
_PAGE = "Markdown file to write. Without it, the page is printed."
Page = Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help=_PAGE, show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print as JSON.")]

lab = typer.Typer()


@lab.callback(invoke_without_command=True)
def _start(context: typer.Context) -> None:
    """Run the papers' experiments again, and say whether their claims hold.

    Example:  windrow lab run uniform skew --quick
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@lab.command("list")
def list_experiments(as_json: AsJson = False) -> None:
    """List the experiments by paper: id and claim.

    Example:  windrow lab list
    """
    from itertools import groupby

    from rich.console import Console

    from windrow.lab.experiment import experiments

    known = sorted(experiments().values(), key=lambda one: one.paper)
    if as_json:
        typer.echo(json.dumps([{"id": e.id, "paper": e.paper, "place": e.place, "claim": e.claim} for e in known]))
        return
    console = Console(highlight=False, markup=False)
    cut = {"no_wrap": True, "overflow": "ellipsis"} if console.is_terminal else {"soft_wrap": True}
    width = max(len(one.id) for one in known)
    for number, (paper, group) in enumerate(groupby(known, lambda one: one.paper)):
        console.print(*([] if number == 0 else [""]), paper, sep="\n", style="bold", **cut)
        for one in group:
            console.print(f"  {one.id:<{width}}  {one.claim}", **cut)
    console.print("\nRun one: windrow lab run ID --quick. docs/lab.md has what came out of all of them.", **cut)


@lab.command("run")
def run(
    ids: Ids,
    data: Data = None,
    quick: Quick = False,
    seeds: Seeds = None,
    output: Out = RESULTS,
    as_json: AsJson = False,
) -> None:
    """Run experiments; write ID.csv, ID.png and ID.json (the verdict, and the figures it rests on).

    Example:  windrow lab run window-size --seeds 3 -o out/lab
    """
    from windrow.errors import InputError
    from windrow.lab import running
    from windrow.lab.experiment import Conditions, experiments, find

    chosen = list(experiments().values()) if ids == ["all"] else [find(name) for name in dict.fromkeys(ids)]
    if data is not None and not data.is_dir():
        raise InputError(f"--data: {data} is no directory")
    running.check_folder(output)
    conditions = Conditions(quick, seeds, data)
    outcomes = []
    for experiment in chosen:
        outcome = _run(experiment, conditions)
        running.write(outcome, output)
        outcomes.append(outcome.to_dict())
        if not as_json:
            _tell(outcome, output)
    if as_json:
        typer.echo(json.dumps(outcomes if len(outcomes) > 1 else outcomes[0], allow_nan=False))


@lab.command("report")
def report(
    results: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the results.")] = RESULTS,
    output: Page = None,
) -> None:
    """Gather all verdicts of a folder into one Markdown page.

    Example:  windrow lab report out/lab -o out/lab/report.md
    """
    import os

    from windrow.errors import InputError
    from windrow.lab.report import gather, markdown

    outcomes = gather(results)
    if output is None:
        typer.echo(markdown(outcomes, str(results)), nl=False)
        return
    pictures = Path(os.path.relpath(results, output.parent)).as_posix()
    try:
        output.write_text(markdown(outcomes, pictures), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{output}: writing failed: {error.strerror or error}") from error


def _run(experiment: Experiment, conditions: Conditions) -> Outcome:
    from rich.console import Console

    from windrow.cli.report import progress
    from windrow.kernels.notice import NOTICE
    from windrow.lab import running

    errors = Console(stderr=True)
    with NOTICE.pinned(f"what {experiment.id} joins", None):
        running.warm_up(experiment, conditions)
    with progress(errors, running.work(experiment, conditions), experiment.id) as advance:
        return running.run(experiment, conditions, lambda: advance(1))


def _tell(outcome: Outcome, folder: Path) -> None:
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    console.print(f"{outcome.experiment.id}: {outcome.verdict} ({outcome.seconds:.1f} s)", style="bold", markup=False)
    for check in outcome.checks:
        holds = "  " if check.aside else {True: "+ ", False: "- ", None: "? "}[check.holds]
        console.print(f"  {holds}{check.claim}: {check.found}", markup=False)
    console.print(f"  {folder / outcome.experiment.id}.csv, .png, .json", markup=False)
