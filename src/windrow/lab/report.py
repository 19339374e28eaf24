"""The lab's report: all verdicts of a folder in one Markdown page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from windrow.errors import InputError
from windrow.lab.experiment import experiments
from windrow.lab.verdict import DIFFERS, MATCHES, UNKNOWN

Found = dict[str, Any]

_HEAD = """# What the papers claim, and what was measured

Every line is an experiment of the lab: `windrow lab run <id>` runs it again, `windrow lab report` writes this page from
what the runs have written. Verdicts are computed from the figures; what they rest on stands below the table.
"""


def gather(folder: Path) -> list[Found]:
    """The outcomes in a folder, in the order of the experiments."""
    known = list(experiments())
    found = [_read(path) for path in sorted(folder.glob("*.json"))]
    if not found:
        raise InputError(f"{folder}: no results here; run some first: windrow lab run ID -o {folder}")
    return sorted(found, key=lambda one: known.index(one["id"]) if one["id"] in known else len(known))


def _read(path: Path) -> Found:
    try:
        found: Found = json.loads(path.read_text(encoding="utf-8"))
        found["id"], found["verdict"], found["checks"]
        return found
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: this is no outcome of the lab ({error!r}); remove it or run it again") from error


def markdown(outcomes: Sequence[Found], pictures: str) -> str:
    """The page; `pictures` is the folder of the pictures, as seen from it."""
    counts = Counter(one["verdict"] for one in outcomes)
    said = ", ".join(f"{counts[word]} {word}" for word in (MATCHES, DIFFERS, UNKNOWN) if counts[word])
    lines = [_HEAD, f"{len(outcomes)} experiments: {said}.", "", "| experiment | paper | claim | verdict | time |"]
    lines.append("|---|---|---|---|---|")
    for one in outcomes:
        link, verdict = f"[{one['id']}](#{one['id']})", f"**{one['verdict']}**{' (quick)' if one['quick'] else ''}"
        cells = (link, f"{one['paper']}, {one['place']}", one["claim"], verdict, f"{one['seconds']:,.0f} s")
        lines.append(f"| {' | '.join(_cell(cell) for cell in cells)} |")
    for one in outcomes:
        lines += ["", *_section(one, pictures)]
    return "\n".join(lines) + "\n"


def _section(one: Found, pictures: str) -> list[str]:
    because = f", because {one['because']}" if one["because"] else ""
    lines = [
        f"## {one['id']}",
        "",
        f"`{command(one)}`: {one['setting']}; {one['source']}. Seeds: {_seeds(one['seeds'])}.",
        "",
        f"Verdict: **{one['verdict']}**{because}.",
        "",
        "| part of the claim | holds | measured |",
        "|---|---|---|",
    ]
    for check in one["checks"]:
        holds = "beside it" if check["aside"] else {True: "yes", False: "no", None: "cannot be told"}[check["holds"]]
        lines.append(f"| {_cell(check['claim'])} | {holds} | {_cell(check['found'])} |")
    return [*lines, "", f"![{one['id']}]({pictures}/{one['id']}.png)"]


def command(one: Found) -> str:
    """What runs the experiment again."""
    data = " --data DIR" if one["data"] else ""
    return f"windrow lab run {one['id']}{data}{' --quick' if one['quick'] else ''}"


def _seeds(seeds: list[int]) -> str:
    """Which seeds there were: every point is measured once under each."""
    return f"{seeds[0]} alone, one run of each point" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
