"""`windrow compare`: how far an approximate result is from the exact one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from windrow.cli import options
from windrow.errors import InputError, KeyTypeError

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.table import Table

SIDES = ("approximate", "exact")

_COLUMNS = "Columns that make two rows equal, parted by commas. Without it, all: both files must then have the same."
Columns = Annotated[str | None, typer.Option("--columns", metavar="NAMES", help=_COLUMNS, show_default=False)]
_MEASURES = (
    "Measures to show, parted by commas: approximate_rows, exact_rows, matching, missing, extra, symmetric_difference, "
    "recall, precision, dice, jaccard, cosine, overlap, earth_movers, match_and_compare, archive. Without it, all that "
    "can be told."
)
Measures = Annotated[str | None, typer.Option("--measures", metavar="NAMES", help=_MEASURES, show_default=False)]
_COORDINATES = (
    "Numeric columns (times too), parted by commas, that say where a row is: for the Earth Mover's distance and "
    "Match-And-Compare."
)
Coordinates = Annotated[
    str | None, typer.Option("--coordinates", metavar="NAMES", help=_COORDINATES, show_default=False)
]
_PENALTY = "What Match-And-Compare asks for each row that stands in for a missing one, in the unit of the coordinates."
Penalty = Annotated[float, typer.Option("--penalty", min=0.0, help=_PENALTY)]
_ARCHIVED = "Rows that were shed into an archive: the archive metric is the work that is left."
Archived = Annotated[int | None, typer.Option("--archived", min=0, metavar="ROWS", help=_ARCHIVED, show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print the measures as one JSON object.")]


def compare(
    approximate: options.File,
    exact: options.File,
    columns: Columns = None,
    measures: Measures = None,
    coordinates: Coordinates = None,
    penalty: Penalty = 1.0,
    archived: Archived = None,
    text: options.Text = None,
    separator: options.Separator = None,
    as_json: AsJson = False,
) -> None:
    """Say how far a result is from the exact one: what is missing, what is extra, and how much that is.

    Rows are compared as multisets: one that stands there twice counts twice.

    Example:  windrow compare matches.parquet exact.csv --columns user_id,left_ts,right_ts
    """
    from rich.console import Console

    from windrow.quality.compared import DISTANCES, known_measure, measured

    wanted = [known_measure(name) for name in _names(measures) or ()] if measures is not None else None
    places = _names(coordinates) or []
    left, right = _tables(dict(zip(SIDES, (approximate, exact), strict=True)), _names(columns), places, text, separator)
    asked = wanted if wanted is not None else list(DISTANCES) if places else []
    try:
        found = measured(left, right, _names(columns), places, asked, penalty, archived).to_dict()
    except KeyTypeError as error:
        raise KeyTypeError(f"{error}; --text COLUMN reads a column of a text file as text") from error
    if wanted is not None:
        found = {name: found[name] for name in wanted}
    if as_json:
        typer.echo(json.dumps(_finite(found), allow_nan=False))
    else:
        Console().print(_table(found))


def _names(given: str | None) -> list[str] | None:
    """The names in a list parted by commas; None if nothing was given."""
    if given is None:
        return None
    names = [name.strip() for name in given.split(",") if name.strip()]
    if not names:
        raise InputError(f"{given!r} names nothing: write names parted by commas, such as a,b")
    return names


def _tables(
    paths: Mapping[str, Path],
    columns: list[str] | None,
    places: list[str],
    text: list[str] | None,
    separator: list[str] | None,
) -> tuple[pa.Table, pa.Table]:
    """Both files, each with the columns that are compared; a file of no bytes has those of the other."""
    from windrow.cli.inputs import open_sources

    sources = open_sources(paths, text, separator)
    known = {side: source.schema.names for side, source in sources.items()}
    if columns is None:
        _refuse_others(paths, known)
        wanted = None
    else:
        wanted = list(dict.fromkeys([*columns, *places]))
    one, two = sources.values()
    return one.table(wanted, two.schema), two.table(wanted, one.schema)


def _refuse_others(paths: Mapping[str, Path], known: Mapping[str, list[str]]) -> None:
    """Refuse files that do not have the same columns, if none were named."""
    one, two = (known[side] for side in SIDES)
    if not one or not two or set(one) == set(two):
        return
    only = [
        f"{paths[side]} alone has {', '.join(map(repr, own))}"
        for side, own in zip(SIDES, ([c for c in one if c not in two], [c for c in two if c not in one]), strict=True)
        if own
    ]
    shared = [c for c in one if c in two]
    advice = f"name what to compare, such as --columns {','.join(shared)}" if shared else "they share no column"
    raise InputError(f"the files have different columns ({'; '.join(only)}): {advice}")


def _finite(found: Any) -> Any:
    """The same with None for what is infinite, which JSON does not know."""
    if isinstance(found, dict):
        return {name: _finite(value) for name, value in found.items()}
    return None if found == float("inf") else found


def _table(found: Mapping[str, Any]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("measure")
    table.add_column("value", justify="right")
    for name, value in found.items():
        parts = value if isinstance(value, dict) else {"": value}
        for part, figure in parts.items():
            shown = f"{figure:,}" if isinstance(figure, int) else f"{figure:.6g}"
            table.add_row(f"{name} {part}".replace("_", " ").strip(), shown)
    return table
