"""`windrow join`: two files in, their join inside a budget out."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, cast

import typer

from windrow.cli import options

if TYPE_CHECKING:
    import pyarrow as pa

    from windrow.engine import Engine
    from windrow.spec import Query

HEAD_ROWS = 32  # enough to run through every kernel


def join(
    left: options.File,
    right: options.File,
    on: options.On,
    output: options.Output,
    time: options.Time = None,
    left_time: options.LeftTime = None,
    right_time: options.RightTime = None,
    within: options.Within = None,
    left_within: options.LeftWithin = None,
    right_within: options.RightWithin = None,
    memory: options.Memory = None,
    policy: options.Policy = "prob",
    statistics: options.Statistics = None,
    lateness: options.Lateness = None,
    select: options.Select = None,
    where: options.Where = None,
    on_full: options.OnFull = "shed",
    seed: options.Seed = 0,
    no_recall: options.NoRecall = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Join two files as if they were streams, inside a budget.

    Rows meet when all conditions hold and they lie within each other's windows.

    Example:  windrow join clicks.parquet orders.csv --on user_id --time ts --within 10m --memory 20% -o o.csv
    """
    from rich.console import Console

    from windrow.cli import report, texts
    from windrow.spec import pair_query

    query = pair_query(
        texts.predicates(on),
        time=_sides(left_time or time, right_time or time),
        within=_sides(left_within or within, right_within or within),
        memory=memory,
        policy=texts.policy(policy, statistics),
        lateness=lateness or 0,
        where=texts.filters(where or ()),
        select=texts.selection(select or ()),
        on_full=cast(Literal["shed", "fail"], on_full),
        seed=seed,
    )
    errors = Console(stderr=True, quiet=quiet)
    tables = _read({"left": left, "right": right}, query, output)
    with report.noticed_if_slow(errors.print):
        _warm_up(query, tables)
    summary = _join(query, tables, output, not no_recall, errors)
    if as_json:
        typer.echo(json.dumps(summary.to_dict(), allow_nan=False))
    elif not quiet:
        Console().print(summary.table())


def _sides(left: str | None, right: str | None) -> dict[str, str]:
    """What was given, by side."""
    return {side: value for side, value in (("left", left), ("right", right)) if value is not None}


# ------------------------------------------------------------------------------------------- reading


def _read(paths: dict[str, Path], query: Query, output: Path) -> dict[str, pa.Table]:
    """The columns of both files that the query reads. What cannot be written is refused before."""
    import pyarrow as pa

    from windrow.files import open_table, open_writer

    sources = {side: open_table(path) for side, path in paths.items()}
    open_writer(output, pa.schema([]), paths.values())
    everything = query.select is None
    columns = {side: None if everything else _named(query, side) for side in paths}
    left, right = (source.schema for source in sources.values())
    hints = {"left": _hint(query, "left", right), "right": _hint(query, "right", left)}
    return {side: source.table(columns[side], hints[side]) for side, source in sources.items()}


def _named(query: Query, side: str) -> list[str]:
    """The columns of one side that the query names."""
    stream = query.stream(side)
    references = [ref for predicate in query.on for ref in predicate.columns]
    references += [output.column for output in query.select or ()]
    own = [ref.removeprefix(f"{side}.") for ref in references if ref.startswith(f"{side}.")]
    times = [stream.time] if stream.time else []
    return list(dict.fromkeys([*times, *own, *(filter_.column for filter_ in stream.where)]))


def _hint(query: Query, side: str, other: pa.Schema) -> pa.Schema:
    """What the columns of an empty file would have been: as on the other side, or as the query needs them."""
    import pyarrow as pa

    partners = _partners(query, side)
    types = {partners.get(f.name, f.name): f.type for f in other if not pa.types.is_null(f.type)}
    stream = query.stream(side)
    if stream.time:
        steps = any(getattr(s.window.size, "unit", "ns") == "steps" for s in query.streams)
        types.setdefault(stream.time, pa.int64() if steps else pa.timestamp("us"))
    for filter_ in stream.where:
        value = filter_.value[0] if isinstance(filter_.value, tuple) else filter_.value
        types.setdefault(filter_.column, pa.string() if value is None else pa.scalar(value).type)
    for column in _named(query, side):
        types.setdefault(column, pa.float64() if column in _measured(query, side) else pa.string())
    return pa.schema(list(types.items()))


def _partners(query: Query, side: str) -> dict[str, str]:
    """Columns of the other side, and what they meet on this one: times and keys."""
    from windrow.spec import Equal

    mine = query.stream(side)
    theirs = next(stream for stream in query.streams if stream.name != side)
    found = {theirs.time: mine.time} if mine.time and theirs.time else {}
    for predicate in query.on:
        if isinstance(predicate, Equal):
            a, b = (ref.partition(".")[2] for ref in predicate.columns)
            found |= {b: a} if predicate.streams[0] == side else {a: b}
    return found


def _measured(query: Query, side: str) -> set[str]:
    """Columns that are compared by size, and so are numbers."""
    from windrow.spec import Equal

    references = [ref for p in query.on if not isinstance(p, Equal) for ref in p.columns]
    return {ref.partition(".")[2] for ref in references if ref.startswith(f"{side}.")}


# ------------------------------------------------------------------------------------------- joining


def _warm_up(query: Query, tables: dict[str, pa.Table]) -> None:
    """Join the first rows only, so that every kernel is there before the clock runs."""
    from windrow.api import run
    from windrow.feed import engine_for

    heads = {side: table.slice(0, HEAD_ROWS) for side, table in tables.items()}
    for _ in run(engine_for(query, heads), heads):
        pass


def _join(query: Query, tables: dict[str, pa.Table], output: Path, recall: bool, errors: Any) -> Any:
    """Join, and write the matches as they come."""
    from windrow.cli.report import Summary
    from windrow.feed import engine_for

    if query.memory is not None and query.memory.share is not None and errors.is_terminal:
        with errors.status("measuring what the exact join needs"):
            engine = engine_for(query, tables, recall)
    else:
        engine = engine_for(query, tables, recall)
    started = perf_counter()
    _write(engine, tables, output, errors)
    seconds = perf_counter() - started
    return Summary(engine.metrics, _budget(query, engine), seconds, str(output))


def _write(engine: Engine, tables: dict[str, pa.Table], output: Path, errors: Any) -> None:
    from windrow.api import run
    from windrow.cli.report import progress
    from windrow.files import open_writer

    rows = sum(table.num_rows for table in tables.values())
    with progress(errors, rows, "joining") as advance:
        pieces = run(engine, tables, advance)
        first = next(pieces)  # there always is one, which knows the columns
        with open_writer(output, first.schema) as writer:
            for piece in chain([first], pieces):
                writer.write(piece)


def _budget(query: Query, engine: Engine) -> str:
    if query.memory is None:
        return "no limit"
    if query.memory.share is None:
        return str(query.memory)
    return f"{query.memory} = {engine.query.memory}"
