"""`windrow analyse`: what streams are like, and which policy that calls for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from windrow.cli import options
from windrow.cli.join import sides

if TYPE_CHECKING:
    from rich.table import Table

    from windrow.analysis import Analysis
    from windrow.analysis.figures import Spread
    from windrow.analysis.locality import Locality

Second = Annotated[Path | None, typer.Argument(help="Another one, to be joined with it.", show_default=False)]
_ON = "Key column, or an equality: 'left.id = right.user'. May be repeated: all together are the key."
On = Annotated[list[str], typer.Option("--on", metavar="KEY", help=_ON, show_default=False)]
_WINDOW = "Rows of a stream that an arriving row of the other may match."
Window = Annotated[int, typer.Option("--window", metavar="ROWS", help=_WINDOW)]
_OUT = "Draw popularity, stack distances, gaps and ages: a .png, .svg or .pdf file."
Out = Annotated[Path | None, typer.Option("--output", "-o", metavar="PICTURE", help=_OUT, show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print all figures as one JSON object.")]


def analyse(
    left: options.File,
    on: On,
    right: Second = None,
    time: options.Time = None,
    left_time: options.LeftTime = None,
    right_time: options.RightTime = None,
    window: Window = 1_000,
    text: options.Text = None,
    separator: options.Separator = None,
    utc: options.Utc = False,
    where: options.Where = None,
    seed: options.Seed = 0,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Say how popular keys are, how they crowd in time, and which policy that calls for.

    Of one stream, matches are those of its rows in odd places with its rows in even ones.

    Example:  windrow analyse clicks.parquet orders.csv --on user_id --time ts -o locality.png
    """
    from rich.console import Console

    from windrow.analysis.analysis import analysis_of
    from windrow.cli import texts
    from windrow.cli.inputs import open_inputs
    from windrow.spec import pair_query

    if out is not None:
        from windrow.lab import pictures

        pictures.check(out)
    given = texts.predicates(on)
    query = pair_query(
        given,
        time=sides(left_time or time, right_time or time),
        where=texts.filters(where or ()),
        select=[given[0].columns[0]] if given else None,  # the files' other columns are not read
    )
    errors = Console(stderr=True)
    paths = {"left": left, "right": right or left}
    inputs = open_inputs(paths, query, text or (), separator, utc, lambda line: errors.print(line, soft_wrap=True))
    chosen = ("left",) if right is None else ("left", "right")
    tables = {side: inputs[side].table() for side in chosen}
    found = analysis_of(query, tables, window, seed)
    if out is not None:
        from windrow.lab.locality_picture import draw

        draw(found, out, " and ".join(paths[side].name for side in chosen))
    if as_json:
        typer.echo(json.dumps(found.to_dict(), allow_nan=False))
    else:
        console = Console()
        console.print(_table(found))
        console.print(_told(found), highlight=False, soft_wrap=not console.is_terminal)


def _table(found: Analysis) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for stream in found.streams:
        table.add_column(stream.name, justify="right")
    columns = [_lines(stream) for stream in found.streams]
    for label in columns[0]:
        table.add_row(label, *(column[label] for column in columns))
    return table


def _lines(stream: Locality) -> dict[str, str]:
    popular, stack, gaps, ages = stream.popularity, stream.stack, stream.gaps, stream.ages
    error = f" ± {popular.error:.3f}" if popular.error is not None else ""
    return {
        "rows with a key": f"{stream.rows:,}",
        "left out (no key or time)": f"{stream.left_out:,}",
        "keys": f"{popular.keys:,}",
        "top key's share": f"{popular.top_share:.2%}",
        "popularity slope": f"{popular.slope:.3f}{error}",
        "entropy, bits": f"{popular.entropy:.2f}",
        "stack distance, median": _middle(stack.found),
        "  in random order": _middle(stack.permuted),
        "tail exponent of gaps": _number(gaps.tail),
        "  in random order ": _number(gaps.tail_permuted),
        "best age k_opt, median": _middle(ages.keys),
        "  of all rows as one": "none" if ages.pooled is None else f"{ages.pooled:,}",
        "  keys within factor 2": f"{ages.near_pooled:.0%}",
    }


def _middle(spread: Spread | None) -> str:
    return "none" if spread is None else f"{spread.median:,.0f} ({spread.p25:,.0f} to {spread.p75:,.0f})"


def _number(value: float | None) -> str:
    return "too few to tell" if value is None else f"{value:.2f}"


def _told(found: Analysis) -> str:
    """How matches cluster, and the advice."""
    clusters, whose = found.clustering, "" if len(found.streams) == 2 else " of odd with even rows"
    told = f"{clusters.matches:,} matches{whose} in windows of {found.window:,} rows"
    if clusters.j is not None:
        told += f", {clusters.permuted:,.0f} after permuting keys: J = {clusters.j:.2f} ± {clusters.error:.2f}"
    lines = [f"{told}.", found.advice.text]
    if found.advice.options is not None:
        lines.append(f"windrow join … {found.advice.options}")
    return "\n".join(lines)
