"""`windrow archive`: upkeep of the archives that joins on Spark write."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from windrow.spark import Upkeep

_FOLDER = "The archive: a folder, or an address such as s3a://bucket/lost."
Folder = Annotated[str, typer.Argument(metavar="FOLDER", help=_FOLDER, show_default=False)]
_BEFORE = "A time, as 2024-05-31 or 2024-05-31T12:00+02:00 (without an offset, UTC); a number where times are numbers."
Before = Annotated[str, typer.Option("--before", metavar="TIME", help=_BEFORE, show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print what was done as one JSON object.")]

archive = typer.Typer()


@archive.callback(invoke_without_command=True)
def _start(context: typer.Context) -> None:
    """Tend the archive of a join on Spark, while the join runs or not.

    Example:  windrow archive compact shop/lost
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@archive.command("compact")
def compact(folder: Folder, as_json: AsJson = False) -> None:
    """Merge small files into larger ones, and remove what an earlier call has merged.

    Example:  windrow archive compact s3a://shop/lost
    """
    from windrow.spark.upkeep import compact

    _tell(compact(folder), as_json)


@archive.command("forget")
def forget(folder: Folder, before: Before, as_json: AsJson = False) -> None:
    """Forget what is only needed to repair matches before a time: that of their later row.

    Example:  windrow archive forget shop/lost --before 2024-05-31
    """
    from windrow.spark.upkeep import forget

    _tell(forget(folder, before), as_json)


def _tell(done: Upkeep, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(asdict(done)))
    else:
        typer.echo(f"{done.before:,} files before, {done.after:,} after; {done.removed:,} removed")
