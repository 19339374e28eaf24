"""The command line: `windrow join`, `cql`, `compare`, `optimum`, `analyse`, `demo`, `lab`, `archive`, `sites` …

A command imports what it runs on when it runs, so that help and refusals come at once. Whatever is wrong with
the input leaves as one line on the error stream: exit code 1 for what windrow refuses, 2 for a command that
is written wrongly.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from windrow.cli.analyse import analyse
from windrow.cli.archive import archive
from windrow.cli.compare import compare
from windrow.cli.compile import compile
from windrow.cli.cql import cql
from windrow.cli.demo import demo
from windrow.cli.join import join
from windrow.cli.lab import lab
from windrow.cli.optimum import optimum
from windrow.cli.serving import site
from windrow.cli.sites import sites
from windrow.cli.wording import Command
from windrow.errors import WindrowError

# Typer carries its own copy of click or uses the installed one, by its version; this is the class of either.
_UsageError: Any = typer.BadParameter.__bases__[0]

INTERRUPTED = 130  # what shells give for a program ended by Ctrl-C
TERMINATED = 143  # and for one that was asked to end


class Terminated(BaseException):
    """The process was asked to end: what is half written is cleared away on the way out."""


class Commands(TyperGroup):
    """The commands, with every expected error as one line."""

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run a command line; ends the process unless told otherwise."""
        run: Callable[..., Any] = super().main
        code = _reported(lambda: run(*args, standalone_mode=False, **extra))
        if standalone_mode:
            sys.exit(code)
        return code


def _reported(run: Callable[[], Any]) -> int:
    """The exit code of a run."""
    try:
        code = _unwrapped(run)
        sys.stdout.flush()
    except WindrowError as error:
        return _refuse(str(error), 1)
    except _UsageError as error:
        path = error.ctx.command_path if error.ctx is not None else "windrow"
        return _refuse(f"{error.format_message()} (see {path} --help)", 2)
    except (KeyboardInterrupt, typer.Abort):
        return _refuse("interrupted", INTERRUPTED)
    except Terminated:
        return _refuse("terminated", TERMINATED)
    except OSError as error:  # files are reported where they are written: this is the way out of the program
        _close_output()
        return _refuse(f"{error.filename or 'standard output'}: writing failed: {error.strerror or error}", 1)
    if code == INTERRUPTED:  # the parser has turned Ctrl-C into an exit code
        return _refuse("interrupted", INTERRUPTED)
    return code if isinstance(code, int) else 0


def _unwrapped(run: Callable[[], Any]) -> Any:
    """A run from which a signal comes out as itself: one that arrives in a kernel is the cause of a SystemError."""
    try:
        return run()
    except SystemError as error:
        if isinstance(error.__cause__, KeyboardInterrupt | Terminated):
            raise error.__cause__ from None
        raise


def _close_output() -> None:
    """Let what could not be written go, or Python complains about it once more at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refuse(message: str, code: int) -> int:
    typer.echo(f"windrow: {' '.join(message.split())}", err=True)
    return code


app = typer.Typer(
    cls=Commands,
    add_completion=False,
    rich_markup_mode="rich",
)
app.command("join")(join)
app.command("cql")(cql)
app.command("demo")(demo)
app.command("optimum")(optimum)
app.command("analyse")(analyse)
app.command("compare")(compare)
app.command("compile")(compile)
app.add_typer(lab, name="lab")
app.add_typer(site, name="site")
app.add_typer(sites, name="sites")
app.add_typer(archive, name="archive")
for each in (app, lab, site, sites, archive):
    for registered in each.registered_commands:
        registered.cls = Command


def _version(wanted: bool) -> None:
    if wanted:
        from windrow import __version__

        typer.echo(f"windrow {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _start(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Join streams in fixed memory, and know what it cost.

    Example:  windrow join clicks.parquet orders.csv --on user_id --time ts --within 10m -o matches.parquet
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _terminate(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # who asks twice must not stop the clearing away
    raise Terminated


def main() -> None:
    """The program `windrow`."""
    signal.signal(signal.SIGTERM, _terminate)
    app(prog_name="windrow")
