"""`windrow site serve` and `windrow sites start|status`: streams at several places, joined between them."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from windrow.cli import options
from windrow.errors import WindrowError

_FILE = "TOML or JSON that names streams, sites, links and the plan (docs/sites.md)."
File = Annotated[Path, typer.Argument(metavar="FILE", help=_FILE, show_default=False)]
Name = Annotated[str, typer.Option("--name", metavar="SITE", help="Which of the sites to serve.", show_default=False)]

site = typer.Typer()


@site.callback(invoke_without_command=True)
def _start_one(context: typer.Context) -> None:
    """Serve one place of a join whose streams are born at several.

    Example:  windrow site serve shop.toml --name paris
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@site.command("serve")
def serve(file: File, name: Name) -> None:
    """Serve a site until its streams have ended everywhere, or until it is stopped. It goes on where it was stopped.

    Example:  windrow site serve shop.toml --name paris
    """
    from windrow.sites.ground.serving import serve

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr, force=True)
    serving = serve(file, name)
    try:
        while not serving.wait(1.0):
            pass
    finally:
        serving.stop()


def start(file: File) -> None:
    """Serve every site of a file as a process on this machine, until all streams have ended: for trying out.

    Example:  windrow sites start shop.toml
    """
    from windrow.sites.ground.description import describe

    description = describe(file)
    assert description.id  # what is wrong with the file is said here, and once
    names = description.plan.places
    program = [sys.executable, "-m", "windrow", "site", "serve", str(file), "--name"]
    running = {name: subprocess.Popen([*program, name]) for name in names}
    try:
        while running:
            for name, process in list(running.items()):
                code = process.poll()
                if code == 1:  # it has said why
                    raise typer.Exit(1)
                if code:
                    raise WindrowError(f"site {name} ended with code {code}")
                if code == 0:
                    del running[name]
            time.sleep(0.1)
    finally:
        for process in running.values():
            process.send_signal(signal.SIGTERM)
        for process in running.values():
            process.wait(30)
    typer.echo(_ended(file))


def _ended(file: Path) -> str:
    from windrow.sites.ground.results import results

    found = results(file)
    return f"{found.num_rows:,} matches; read them with windrow.sites.results({str(file)!r})"


def status(file: File, as_json: options.AsJson = False) -> None:
    """Ask every site how it goes: rates, bytes on each link against the plan, delay, memory, whom it waits for.

    Example:  windrow sites status shop.toml
    """
    from windrow.sites.ground.description import describe
    from windrow.sites.ground.status import status

    description = describe(file)
    found = {name: status(description, name) for name in description.plan.places}
    if as_json:
        typer.echo(json.dumps(found))
        return
    for name, figures in found.items():
        typer.echo(_told(name, figures))


def _told(name: str, figures: dict[str, Any]) -> str:
    """The figures of a site in a few lines."""
    if "away" in figures:
        return f"{name}: away: {figures['away']}"
    memory, delay, found = figures["memory"], figures["delay_s"]["mean"], figures["results"]
    waits = ", ".join(f"{who} (interval {at:,})" for who, at in figures["waits_for"].items())
    lines = [
        f"{name}: interval {figures['interval']:,}"
        + (", done" if figures["done"] else f", waits for {waits}" * bool(waits)),
        f"  results      {found['rows']:,} rows, {found['rows_per_s']:,.0f} rows/s"
        + ("" if delay is None else f"; delay {1000 * delay:,.0f} ms"),
        f"  memory       {memory['resident_rows']:,} rows in windows; holds {memory['held_bytes']:,} of "
        f"{memory['may_hold_bytes']:,} bytes for others" + (", full" if memory["full"] else ""),
    ]
    for stream, s in figures["streams"].items():
        lines.append(f"  stream {stream}: {s['arrived']:,} rows, {s['rows_per_s']:,.0f} rows/s, {s['late']:,} late"
                     + (", ended" if s["ended"] else ""))  # fmt: skip
    for other, link in figures["links"].items():
        plan = link["planned_bytes_per_s"]
        lines.append(
            f"  to {other}: {link['bytes']:,} bytes in {link['messages']:,} messages ({link['again']:,} again), "
            f"{link['bytes_per_s']:,.0f} bytes/s" + ("" if plan is None else f" (planned {plan:,.0f})")
            + ("" if link["connected"] or figures["done"] else f"; away for {link['away_s']:,.0f} s")
        )  # fmt: skip
    if figures["refused"]:
        lines.append("  refused      " + ", ".join(f"{n:,} {what}" for what, n in figures["refused"].items()))
    return "\n".join(lines)


os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # what goes wrong is said in words of our own
