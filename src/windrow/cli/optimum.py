"""`windrow optimum`: how much of a join a memory could have kept, at best."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from windrow.cli import options
from windrow.cli.join import sides

if TYPE_CHECKING:
    import pyarrow as pa

    from windrow.offline import Optimum

Rows = Annotated[str, typer.Option("--memory", metavar="ROWS", help="Rows that may be held.", show_default=False)]
Split = Annotated[bool, typer.Option("--split", help="Half of the memory for each stream, instead of one pool.")]
_WARM_UP = "Matches within this time of the first row do not count."
WarmUp = Annotated[str | None, typer.Option("--warm-up", metavar="DURATION", help=_WARM_UP, show_default=False)]
_METHOD = "exact solves for the optimum; bracket bounds it from both sides; auto chooses by size."
Method = Annotated[str, typer.Option("--method", metavar="auto|exact|bracket", help=_METHOD)]
_MEMORY_AT = "Another memory from a time on; may be given several times."
MemoryAt = Annotated[
    list[str] | None, typer.Option("--memory-at", metavar="TIME=ROWS", help=_MEMORY_AT, show_default=False)
]
_WITHIN_AT = "Another window of both sides from a time on; may be given several times."
WithinAt = Annotated[
    list[str] | None, typer.Option("--within-at", metavar="TIME=WINDOW", help=_WITHIN_AT, show_default=False)
]
_OUT = "Write the schedule: for every row of both sides, until which instant it is held (different times, from 0)."
Out = Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help=_OUT, show_default=False)]


def optimum(
    left: options.File,
    right: options.File,
    on: options.On,
    memory: Rows,
    time: options.Time = None,
    left_time: options.LeftTime = None,
    right_time: options.RightTime = None,
    within: options.Within = None,
    left_within: options.LeftWithin = None,
    right_within: options.RightWithin = None,
    split: Split = False,
    memory_at: MemoryAt = None,
    within_at: WithinAt = None,
    warm_up: WarmUp = None,
    method: Method = "auto",
    text: options.Text = None,
    separator: options.Separator = None,
    utc: options.Utc = False,
    where: options.Where = None,
    out: Out = None,
    as_json: options.AsJson = False,
) -> None:
    """Say how many matches the best possible choice of what to hold would give.

    Example:  windrow optimum clicks.parquet orders.csv --on user_id --time ts --within 10m --memory 5000
    """
    from rich.console import Console

    from windrow.cli import texts
    from windrow.cli.inputs import open_inputs
    from windrow.files import open_writer
    from windrow.offline.instance import Question
    from windrow.offline.optimum import optimum_of
    from windrow.spec import Memory, pair_query

    query = pair_query(
        texts.predicates(on),
        time=sides(left_time or time, right_time or time),
        within=sides(left_within or within, right_within or within),
        where=texts.filters(where or ()),
    )
    errors = Console(stderr=True)
    paths = {"left": left, "right": right}
    inputs = open_inputs(paths, query, text or (), separator, utc, lambda line: errors.print(line, soft_wrap=True))
    start = perf_counter()
    limit: Any = Memory(memory, split=True) if split else 0 if memory == "0" else memory
    tables = {side: file.table() for side, file in inputs.items()}
    later = texts.changes(memory_at or (), "--memory-at", int)
    windows = texts.changes(within_at or (), "--within-at", str)
    question = Question(
        query,
        tables,
        limit,
        later,
        {"left": windows, "right": windows},
        warm_up=warm_up or 0,
    )
    found = optimum_of(question, cast(Literal["auto", "exact", "bracket"], method))
    if out is not None:
        held = _schedule(found, tables)
        with open_writer(out, held.schema, paths.values()) as writer:
            writer.write(held)
    facts = {
        "optimum_at_least": found.value,
        "optimum_at_most": found.bound,
        "gap": found.gap,
        "exact": found.exact,
        "seconds": perf_counter() - start,
    }
    typer.echo(json.dumps(facts) if as_json else _told(facts))


def _schedule(found: Optimum, tables: Mapping[str, pa.Table]) -> pa.Table:
    """What `--output` writes; `held_until` counts the different times of all rows from 0."""
    import numpy as np
    import pyarrow as pa

    parts = []
    for side, table in tables.items():
        rows = table.num_rows
        names = pa.array([side]).take(pa.array(np.zeros(rows, np.int64)))
        parts.append(pa.table({"side": names, "row": np.arange(rows), "held_until": found.schedule(side)}))
    return pa.concat_tables(parts)


def _told(facts: dict[str, float]) -> str:
    """The answer in words."""
    least, most, exact = facts["optimum_at_least"], facts["optimum_at_most"], facts["exact"]
    share = f"{least / exact:.2%}" if exact else "all"
    if least == most:
        return f"At best {least:,.0f} of {exact:,.0f} matches ({share}), in {facts['seconds']:.1f} s."
    return (
        f"At best between {least:,.0f} ({share}) and {most:,.0f} of {exact:,.0f} matches: "
        f"a gap of {facts['gap']:.2%}, in {facts['seconds']:.1f} s."
    )
