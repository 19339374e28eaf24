"""`windrow join`: two files in, their join inside a budget out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, cast

import typer

from windrow.cli import options
from windrow.errors import KeyTypeError, MemoryFull, TimeError

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
    policy: options.Policy = "auto",
    statistics: options.Statistics = None,
    lateness: options.Lateness = None,
    text: options.Text = None,
    separator: options.Separator = None,
    utc: options.Utc = False,
    select: options.Select = None,
    where: options.Where = None,
    on_full: options.OnFull = "shed",
    sample: options.Sample = None,
    constraints: options.Constraints = None,
    on_violation: options.OnViolation = "lose",
    seed: options.Seed = 0,
    engine: options.EngineName = "embedded",
    shards: options.Shards = None,
    no_recall: options.NoRecall = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Join two files as if they were streams, inside a budget.

    Rows meet when all conditions hold and they lie within each other's windows. Both files are read whole; the budget
    is that of the join.

    Example:  windrow join clicks.parquet orders.csv --on user_id --time ts --within 10m --memory 20% -o o.csv
    """
    from rich.console import Console

    from windrow.cli import on_spark, texts
    from windrow.cli.inputs import open_inputs
    from windrow.record import one_of
    from windrow.spec import pair_query

    query = pair_query(
        texts.predicates(on),
        time=sides(left_time or time, right_time or time),
        within=sides(left_within or within, right_within or within),
        memory=memory,
        policy=texts.policy(policy, statistics),
        lateness=lateness or 0,
        where=texts.filters(where or ()),
        select=texts.selection(select or ()),
        on_full=cast(Literal["shed", "fail"], on_full),
        seed=seed,
        sample=texts.sample(sample),
        shards=shards,
        constraints=texts.constraints(constraints or ()),
        on_violation=texts.on_violation(on_violation),
    )
    one_of(engine, ("embedded", "spark"), "--engine")
    errors = Console(stderr=True, quiet=quiet)
    paths = {"left": left, "right": right}
    with _told_here():
        inputs = open_inputs(paths, query, text or (), separator, utc, lambda line: errors.print(line, soft_wrap=True))
        _check_output(output, paths)
        if engine == "spark":
            summary = on_spark.join(query, inputs, output, not no_recall, errors)
        else:
            summary = _join(query, {s: i.table() for s, i in inputs.items()}, output, not no_recall, errors)
    if as_json:
        typer.echo(json.dumps(summary.to_dict(), allow_nan=False))
    elif not quiet:
        from windrow.cli.report import screen

        screen().print(*summary.tables())


def sides(left: str | None, right: str | None) -> dict[str, str]:
    """What was given, by side."""
    return {side: value for side, value in (("left", left), ("right", right)) if value is not None}


@contextmanager
def _told_here() -> Iterator[None]:
    """Refusals with what can be done about them on the command line."""
    try:
        yield
    except MemoryFull as error:
        what = str(error).partition(":")[0]
        raise MemoryFull(f"{what}: give more --memory, or let --on-full shed choose what to lose") from error
    except (KeyTypeError, TimeError) as error:
        if "time zone" in str(error):
            raise type(error)(f"{error}; --utc takes times without a zone as UTC") from error
        if "cast one to the type of the other" in str(error):
            raise type(error)(f"{error}; --text COLUMN reads a column as text") from error
        raise


def _check_output(output: Path, inputs: dict[str, Path]) -> None:
    """Refuse what cannot be written, before any work is done."""
    import pyarrow as pa

    from windrow.files import open_writer

    open_writer(output, pa.schema([]), inputs.values())


# ------------------------------------------------------------------------------------------- joining


def _warm_up(query: Query, tables: dict[str, pa.Table]) -> None:
    """Join the first rows only, so that every kernel is there before the clock runs."""
    from windrow.feed import engine_for, run

    heads = {side: table.slice(0, HEAD_ROWS) for side, table in tables.items()}
    with suppress(MemoryFull):  # whether all rows are too many is for the join itself to find
        for _ in run(engine_for(query, heads), heads):
            pass


def _join(query: Query, tables: dict[str, pa.Table], output: Path, recall: bool, errors: Any) -> Any:
    """Join, and write the matches as they come."""
    from windrow.cli.report import Summary, tick_of
    from windrow.feed import CodedTables, engine_for
    from windrow.kernels.notice import NOTICE

    tables = CodedTables(tables)
    NOTICE.say = lambda line: errors.print(line, highlight=False, soft_wrap=True)
    _warm_up(query, tables)
    if query.memory is not None and query.memory.share is not None and errors.is_terminal:
        with errors.status("measuring what the exact join needs"):
            engine = engine_for(query, tables, recall)
    else:
        engine = engine_for(query, tables, recall)
    started = perf_counter() - NOTICE.seconds
    _write(engine, tables, output, errors)
    seconds = perf_counter() - NOTICE.seconds - started
    unit = engine.bound()[0].domain.unit
    return Summary(engine.metrics, _budget(query, engine), seconds, str(output), tick_of(unit))


def _write(engine: Engine, tables: dict[str, pa.Table], output: Path, errors: Any) -> None:
    from windrow.cli.report import progress
    from windrow.feed import run
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
    told = str(query.memory) if query.memory.share is None else f"{query.memory} = {engine.query.memory}"
    return told if (query.shards or 1) == 1 else f"{told} over {query.shards} shards"
