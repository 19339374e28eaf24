"""`windrow demo`: what each policy keeps of a join when memory is short."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from windrow.lab.demo import Outcome
    from windrow.lab.joins import Tables

PICTURE = Path("out/recall-against-memory.png")


def demo(
    rows: Annotated[int, typer.Option("--rows", min=1, help="Rows of each stream.")] = 100_000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the streams and of RAND.")] = 0,
    out: Annotated[Path, typer.Option("--output", "-o", help="The picture: a .png, .svg or .pdf file.")] = PICTURE,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as one JSON object.")] = False,
) -> None:
    """Join generated bursty, skewed streams under every policy and seven budgets.

    Shows how much of the exact join each policy keeps, and draws recall against memory. Then one of these runs
    again as a stream on Spark, if that is installed.

    Example:  windrow demo --rows 50000 --seed 7 -o recall.png
    """
    from rich.console import Console
    from rich.live import Live

    from windrow.engine.compile_notice import together
    from windrow.lab import demo as lab
    from windrow.lab import pictures

    if out == PICTURE:
        out.parent.mkdir(exist_ok=True)
    pictures.check(out)
    console = Console(stderr=as_json)
    tables = lab.streams(rows, seed)
    _say(f"joining 2 x {rows:,} rows under {len(lab.POLICIES)} policies and {len(lab.SHARES)} budgets")
    with together("the exact join of two streams, and one for every policy", ("exact", *lab.POLICIES)):
        lab.warm_up(tables)
    exact = outcome = lab.start(tables, rows, seed)
    if console.is_terminal:
        with Live(_table(exact), console=console, auto_refresh=False) as live:
            for outcome in lab.sweep(exact, tables):
                live.update(_table(outcome), refresh=True)
    else:
        for outcome in lab.sweep(exact, tables):
            _tell_progress(outcome)
        if not as_json:
            console.print(_table(outcome))
    pictures.recall_against_memory(outcome.curves(), out, outcome.conclusion(), outcome.setting())
    if not as_json:
        console.print(outcome.conclusion(), style="bold", highlight=False)
        console.print(f"Picture: {out}", highlight=False, soft_wrap=True)
    spark = _on_spark(outcome, tables, console)
    if as_json:
        known = {**outcome.to_dict(), "picture": str(out), "spark": spark}
        typer.echo(json.dumps(known, allow_nan=False))


def _say(line: str) -> None:
    """A line of progress, where no live table shows it: into a file, or the log of a build."""
    import sys

    if not sys.stderr.isatty():
        typer.echo(line, err=True)


def _tell_progress(outcome: Outcome) -> None:
    """What came of the last budget, once all policies have run in it."""
    from windrow.lab.demo import POLICIES

    done = [point for point in outcome.points if point.share == outcome.points[-1].share]
    if len(done) == len(POLICIES):
        best = max(done, key=lambda point: point.recall)
        _say(f"memory of {best.share}%: the most is {best.recall:.1%} of the matches, by {best.policy.upper()}")


def _on_spark(outcome: Outcome, tables: Tables, console: Console) -> dict[str, Any] | None:
    """The run that the conclusion tells of, as a stream on Spark, in one line beside the embedded one."""
    from windrow.lab import demo as lab
    from windrow.lab import session

    if lack := session.missing():
        console.print(f"Not shown on Spark: {lack}", highlight=False, soft_wrap=True)
        return None
    from windrow.lab import on_spark

    _say("running one of them as a stream on Spark")
    with console.status("the same as a stream on Spark") if console.is_terminal else nullcontext():
        run = on_spark.stream(lab.told_query(outcome), tables)
    here = outcome.recall(lab.DEFAULT, lab.TOLD) or 0.0
    console.print(
        f"The same streams on Spark, {run.batches} micro-batches through {run.shards} shards in {run.seconds:.0f} s: "
        f"{lab.DEFAULT.upper()} at {lab.TOLD}% keeps {run.matched / outcome.exact_matched:.1%} of the matches "
        f"(embedded: {here:.1%}).",
        highlight=False, soft_wrap=True,
    )  # fmt: skip
    return {**asdict(run), "recall": run.matched / outcome.exact_matched}


def _table(outcome: Outcome) -> Table:
    """Recall by policy and budget, as far as it has come."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from windrow.lab.demo import POLICIES, SHARES

    table = Table(
        box=SIMPLE_HEAD, pad_edge=False, title="Recall by policy and memory", title_justify="left",
        caption=outcome.setting(), caption_justify="left", collapse_padding=True,
    )  # fmt: skip
    table.add_column("memory")
    for share in SHARES:
        table.add_column(f"{share}%", justify="right", min_width=6)
    table.add_row("rows", *(f"{outcome.budget(share):,}" for share in SHARES), end_section=True)
    best = {share: max((outcome.recall(p, share) or 0.0 for p in POLICIES), default=0.0) for share in SHARES}
    for policy in POLICIES:
        found = [(share, outcome.recall(policy, share)) for share in SHARES]
        cells = ["…" if r is None else f"[bold]{r:.1%}[/]" if r == best[share] else f"{r:.1%}" for share, r in found]
        table.add_row(policy.upper(), *cells)
    return table
