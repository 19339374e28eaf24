"""`windrow demo`: what five policies keep of a join when memory is short."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from windrow.lab.demo import Outcome

PICTURE = Path("out/recall-against-memory.png")


def demo(
    rows: Annotated[int, typer.Option("--rows", min=1, help="Rows of each stream.")] = 100_000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the streams and of RAND.")] = 0,
    out: Annotated[Path, typer.Option("--out", help="The picture: a .png, .svg or .pdf file.")] = PICTURE,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as one JSON object.")] = False,
) -> None:
    """Join generated bursty, skewed streams under five policies and seven budgets.

    Shows how much of the exact join each policy keeps, and draws recall against memory.

    Example:  windrow demo --rows 50000 --seed 7 --out recall.png
    """
    from rich.console import Console
    from rich.live import Live

    from windrow.cli.report import noticed_if_slow
    from windrow.lab import demo as lab
    from windrow.lab import pictures

    if out == PICTURE:
        out.parent.mkdir(exist_ok=True)
    pictures.check(out)
    console = Console(stderr=as_json)
    tables = lab.streams(rows, seed)
    with noticed_if_slow(Console(stderr=True).print):
        lab.warm_up(tables)
    exact = outcome = lab.start(tables, rows, seed)
    if console.is_terminal:
        with Live(_table(exact), console=console, auto_refresh=False) as live:
            for outcome in lab.sweep(exact, tables):
                live.update(_table(outcome), refresh=True)
    else:
        *_, outcome = lab.sweep(exact, tables)
        if not as_json:
            console.print(_table(outcome))
    pictures.recall_against_memory(outcome.curves(), out, outcome.conclusion(), outcome.setting())
    if as_json:
        typer.echo(json.dumps({**outcome.to_dict(), "picture": str(out)}, allow_nan=False))
        return
    console.print(outcome.conclusion(), style="bold", highlight=False)
    console.print(f"Picture: {out}", highlight=False, soft_wrap=True)


def _table(outcome: Outcome) -> Table:
    """Recall by policy and budget, as far as it has come."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from windrow.lab.demo import POLICIES, SHARES

    table = Table(
        box=SIMPLE_HEAD, pad_edge=False, title="Recall by policy and memory", title_justify="left",
        caption=outcome.setting(), caption_justify="left",
    )  # fmt: skip
    table.add_column("memory")
    table.add_column("rows", justify="right")
    for policy in POLICIES:
        table.add_column(policy.upper(), justify="right", min_width=6)
    for share in SHARES:
        found = [outcome.recall(policy, share) for policy in POLICIES]
        best = max((recall for recall in found if recall is not None), default=None)
        cells = ["…" if r is None else f"[bold]{r:.1%}[/]" if r == best else f"{r:.1%}" for r in found]
        table.add_row(f"{share}%", f"{outcome.budget(share):,}", *cells)
    return table
