"""`windrow sites`: plan and simulate joins of streams that are born at several sites. What runs is in serving.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from windrow.cli import options
from windrow.cli.serving import start, status
from windrow.errors import InputError

if TYPE_CHECKING:
    from windrow.sites.setting import Setting

sites = typer.Typer(help="Streams at several sites: plan and simulate their join, run it.", no_args_is_help=True)
sites.command("start")(start)
sites.command("status")(status)

_FILE = "TOML or JSON that names streams with their sites and files, links and the query (docs/sites.md)."
File = Annotated[Path, typer.Argument(metavar="FILE", help=_FILE, show_default=False)]
_OBJECTIVE = "What a plan should need least of; the file's, if not given."
Objective = Annotated[
    str | None, typer.Option("--objective", metavar="time|bytes|money", help=_OBJECTIVE, show_default=False)
]
_PLANNER = "How plans are looked for; the file's, if not given."
Planner = Annotated[
    str | None,
    typer.Option("--planner", metavar="auto|greedy|exhaustive|exact", help=_PLANNER, show_default=False),
]
PlanOut = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the plan as JSON.", show_default=False)
]
_PLAN = "Run this plan, as `sites plan -o` wrote it; else the file's, or one that is made."
PlanIn = Annotated[Path | None, typer.Option("--plan", metavar="FILE", help=_PLAN, show_default=False)]
MatchesOut = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the matches.", show_default=False)
]
Seed = Annotated[int, typer.Option("--seed", metavar="NUMBER", help="Decides about jitter.")]


@sites.command("plan")
def plan(
    file: File,
    objective: Objective = None,
    planner: Planner = None,
    out: PlanOut = None,
    as_json: options.AsJson = False,
) -> None:
    """Say in which order and by which programs rows should meet, and what that ships.

    The streams' files are the samples from which rates, sizes and shares are measured.

    Example:  windrow sites plan places.toml --objective bytes -o plan.json
    """
    from windrow.sites.setting import read_setting, write_plan

    setting = read_setting(file)
    found = _planned(setting, _tables(setting), objective, planner)
    if out is not None:
        write_plan(out, found)
    if as_json:
        told = {"plan": found.plan.to_dict(), "planner": found.planner, "cost": found.cost, "bytes_per_s": found.bytes}
        site, everything = found.everything()
        told |= {"everything": {"to": site, "bytes_per_s": everything}}
        typer.echo(json.dumps(told | {"steps": found.lines()}))
    else:
        typer.echo(found.explain())


@sites.command("simulate")
def simulate(
    file: File, objective: Objective = None, planner: Planner = None, plan_file: PlanIn = None, out: MatchesOut = None,
    seed: Seed = 0, as_json: options.AsJson = False,
) -> None:  # fmt: skip
    """Run the join over the streams' files on simulated links, and say what was shipped and how long it took.

    Example:  windrow sites simulate places.toml --plan plan.json
    """
    from windrow.files import open_writer
    from windrow.sites import describe
    from windrow.sites import simulate as run
    from windrow.sites.setting import read_plan, read_setting

    setting = read_setting(file)
    tables = _tables(setting)
    named = setting.data.get("plan") if objective is None and planner is None else None
    if plan_file is not None or isinstance(named, str):
        found = read_plan(plan_file or file.parent / str(named))[0]
    elif named is not None:
        found = describe(file).plan
    else:
        found = _planned(setting, tables, objective, planner).plan
    ran = run(
        found, tables, setting.links, seed=seed, step_seconds=setting.step_seconds, replan=setting.replan,
        memory=setting.memory, policy=setting.policy,
    )  # fmt: skip
    if out is not None:
        with open_writer(out, ran.table.schema, setting.files.values()) as writer:
            writer.write(ran.table)
    typer.echo(json.dumps(ran.summary()) if as_json else _told(ran))


def _tables(setting: Setting) -> dict[str, Any]:
    """The streams' files."""
    from windrow.files import open_table

    if missing := [name for name in setting.query.names if name not in setting.files]:
        raise InputError(f"stream {missing[0]!r} has no file: name one in the setting")
    return {name: open_table(path).table() for name, path in setting.files.items()}


def _planned(setting: Setting, tables: dict[str, Any], objective: str | None, planner: str | None) -> Any:
    from windrow.sites import plan as planned
    from windrow.sites.setting import origin_of

    least: Any = objective or setting.objective
    how: Any = planner or setting.planner
    origin = origin_of(setting, {name: table.schema for name, table in tables.items()})
    return planned(
        setting.query, setting.sites, setting.links, samples=tables, interval=setting.interval, delay=setting.delay,
        objective=least, planner=how, result_at=setting.result_at,
        origin=origin, step_seconds=setting.step_seconds,
    )  # fmt: skip


def _told(ran: Any) -> str:
    facts = ran.summary()
    lines = [
        f"{facts['matches']:,} matches in {facts['intervals']:,} intervals",
        f"{facts['bytes']:,} bytes in {facts['messages']:,} messages"
        + (f", {facts['money']:.4g} to pay" if facts["money"] else ""),
        f"delay after an interval: {facts['delay_mean_s']:.3f} s on average, {facts['delay_max_s']:.3f} s at most",
    ]
    for plan in facts["plans"][1:]:
        lines.append(f"plan {plan['number']} from interval {plan['begins']:,}: {plan['why']}")
    if (held := ran.metrics) is not None:
        recall = "cannot be told" if held.recall is None else f"{held.recall:.1%}"
        lines.append(f"recall {recall}, {held.shed:,} rows shed by windows and stores of all sites")
    for name, link in facts["links"].items():
        told = f"{link['bytes']:,} bytes, {link['messages']:,} messages, {link['empty']:,} of them without rows"
        lines.append(f"  {name}: {told}")
    return "\n".join(lines)
