"""`windrow cql`: a query text over files."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from windrow.cli import options as shared
from windrow.errors import CqlError, InputError, SpecError

if TYPE_CHECKING:
    import pyarrow as pa

    from windrow.cql import CqlResult

SHOWN = 20  # rows of the result that are printed

_QUERY = (
    "The query text, such as 'Select Istream(*) From A [Range 10 minutes], B [Rows 9] Where A.k = B.k', or a file .cql."
)
Query = Annotated[str, typer.Argument(help=_QUERY, show_default=False)]
_STREAM = "A stream's name in the text, and its file: C=c.parquet. Repeat for each stream."
Stream = Annotated[list[str] | None, typer.Option("--stream", metavar="NAME=FILE", help=_STREAM, show_default=False)]
_TIME = "Event-time column of all streams, or of one: C=ts. Without it, the only column of times that a file has."
Time = Annotated[list[str] | None, typer.Option("--time", metavar="COLUMN", help=_TIME, show_default=False)]
_SEPARATOR = "What parts the columns of .csv inputs, if that is no comma: ';' in all, or in one by its name, C=';'."
Separator = Annotated[
    list[str] | None, typer.Option("--separator", metavar="CHARACTER", help=_SEPARATOR, show_default=False)
]
_OUT = "File for the whole result, .parquet, .csv, .tsv or .jsonl."
Output = Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help=_OUT, show_default=False)]
_EXPLAIN = "Say what the query does, which constraints could help, and after a run what its joins held."
Explain = Annotated[bool, typer.Option("--explain", help=_EXPLAIN)]
_CONSTRAINTS = (
    "watch to have constraints reported, auto to release rows by those that hold, or what is known of sources: "
    "'C is unique on pid', 'C -> B within 5 s'; may be repeated."
)
Constraints = Annotated[
    list[str] | None, typer.Option("--constraints", metavar="WHAT", help=_CONSTRAINTS, show_default=False)
]
_JSON = "Print the result, or where it is, and the metrics of joins as one JSON object."
AsJson = Annotated[bool, typer.Option("--json", help=_JSON)]


def cql(
    query: Query,
    stream: Stream = None,
    time: Time = None,
    output: Output = None,
    explain: Explain = False,
    memory: shared.Memory = None,
    policy: shared.Policy = "auto",
    constraints: Constraints = None,
    on_violation: shared.OnViolation = "lose",
    lateness: shared.Lateness = None,
    text: shared.Text = None,
    separator: Separator = None,
    utc: shared.Utc = False,
    as_json: AsJson = False,
    quiet: shared.Quiet = False,
) -> None:
    """Run a query text over files, as if their rows came one after the other in order of time.

    Of a relation the last state is shown, of a stream (Istream, Dstream) the last rows; --output has all that ever was.

    Example:  windrow cql "Select sum(C.size) From C [Range 10 minutes], B [Range 10 minutes] Where C.pid = B.pid"
    --stream C=c.parquet --stream B=b.parquet
    """
    from windrow.cli.inputs import by_stream
    from windrow.cql import Cql
    from windrow.kernels.notice import NOTICE

    asked_text = _text(query)
    try:
        asked = Cql(asked_text)
        options = _options(memory, policy, constraints, on_violation)
        files = _named(stream or (), "--stream")
        if output is not None:
            _check_output(output, files.values())
        if not files and not explain:
            raise InputError(f"there is no file: give --stream {asked.streams[0]}=FILE, or --explain")
        missing = [name for name in asked.streams if name not in files]
        if missing and files and set(files) <= set(asked.streams):
            raise InputError(f"there is no file for the stream {missing[0]!r}: give --stream {missing[0]}=FILE")
        times = by_stream(time, "--time", asked.streams) or None
        tables = _tables(files, times or {}, text, separator, utc)
        explained = asked.explain(tables or None) if explain else None
        result, seconds = None, 0.0
        if tables:
            begun = perf_counter() - NOTICE.seconds
            result = asked.run(tables, time=times, lateness=lateness, **options)
            seconds = perf_counter() - NOTICE.seconds - begun
    except CqlError as error:
        raise CqlError(_one_line(error, asked_text)) from None
    if result is not None and output is not None:
        _write(result.table, output)
    _tell(explained, result, seconds, output, as_json, quiet)


def _text(query: str) -> str:
    if query.endswith(".cql"):
        try:
            return Path(query).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{query}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return query


def _named(pairs: Any, option: str) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for pair in pairs:
        name, sign, path = pair.partition("=")
        if not (name and sign and path):
            raise SpecError(f"{option} takes a name and a file, such as C=c.parquet, got {pair!r}")
        if name in found:
            raise SpecError(f"{option} names the stream {name!r} twice")
        found[name] = Path(path)
    return found


def _options(memory: str | None, policy: str, constraints: list[str] | None, on_violation: str) -> dict[str, Any]:
    from windrow.cli import texts

    chosen = texts.policy(policy, None)
    found: dict[str, Any] = {} if chosen.name == "auto" else {"policy": chosen}
    if memory is not None:
        found["memory"] = memory
    if constraints:
        found["constraints"] = texts.constraints(constraints)
    if (kind := texts.on_violation(on_violation)) != "lose":
        found["on_violation"] = kind
    return found


def _tables(
    files: dict[str, Path], times: dict[str, str], text: list[str] | None, separator: list[str] | None, utc: bool
) -> dict[str, pa.Table]:
    """The files, whole."""
    import pyarrow as pa

    from windrow.cli.bad_times import refuse_bad_times
    from windrow.cli.inputs import in_utc, open_sources

    found = {name: source.table() for name, source in open_sources(files, text, separator).items()}
    for name, table in found.items():
        refuse_bad_times(files[name], table, times.get(name))
    if not utc:
        return found
    moments = {name: [f.name for f in t.schema if pa.types.is_timestamp(f.type)] for name, t in found.items()}
    clocks = {name: times.get(name, columns[0] if columns else None) for name, columns in moments.items()}
    return {name: in_utc(table, clocks[name]) for name, table in found.items()}


def _check_output(output: Path, inputs: Iterable[Path]) -> None:
    """Refuse a file that cannot be written, or that is read, before anything is run."""
    import pyarrow as pa

    from windrow.files import open_writer

    open_writer(output, pa.schema([]), inputs)


def _write(table: pa.Table, output: Path) -> None:
    from windrow.files import open_writer

    with open_writer(output, table.schema) as writer:
        writer.write(table)


def _one_line(error: CqlError, text: str) -> str:
    """The error with what stands at its place, for a screen that shows one line."""
    first, *shown = str(error).splitlines()
    if len(shown) != 2:
        return str(error)
    at = shown[0][shown[1].index("^") :].strip()
    return f"{first}, at {at!r}" if at else first


def _tell(
    explained: str | None, result: CqlResult | None, seconds: float, output: Path | None, as_json: bool, quiet: bool
) -> None:
    from windrow.cli.report import constraints, screen, tick_of

    if as_json:
        found = {} if result is None else _data(result, seconds, output)
        typer.echo(json.dumps({**({"explain": explained} if explained else {}), **found}, allow_nan=False))
        return
    if explained is not None:
        typer.echo(explained)
    if result is None:
        return
    if not quiet and output is None:
        screen().print(_shown(result))
    if explained is not None or not quiet:
        for line in _joins(result, explained is not None):
            typer.echo(line)
    if not quiet:
        for _, metrics in result.joins:
            if metrics.constraints:
                screen().print(constraints(metrics, tick_of(result.time_unit)))
        late = {name: count for name, count in result.late.items() if count}
        if late:
            typer.echo(f"late, and left out: {', '.join(f'{count:,} of {name}' for name, count in late.items())}")
        typer.echo(f"{_counted(result, output)}, {seconds:.2f} s")


def _joins(result: CqlResult, every: bool) -> list[str]:
    """What each join held, what left it, and what it lost; unless all are asked for, of those that lost something."""
    from windrow.cli.report import recall

    found = []
    for query, metrics in result.joins:
        lost = metrics.shed or metrics.recall != 1.0  # a constraint that does not hold costs matches, too
        if not (every or lost):
            continue
        held = f"{metrics.peak_rows:,} rows, {metrics.peak_bytes:,} bytes at most"
        left = ", ".join(f"{word} {metrics.total(word):,}" for word in ("expired", "released", "shed", "ignored"))
        told = f"; recall {recall(metrics)}" if lost else ""
        found.append(f"join of {', '.join(query.names)}: {metrics.matched:,} matches, {held}; {left}{told}")
    return found


def _data(result: CqlResult, seconds: float, output: Path | None) -> dict[str, Any]:
    from windrow.files.json_lines import json_lines

    joins = [{"streams": list(query.names), **metrics.to_dict()} for query, metrics in result.joins]
    lines = b"".join(json_lines(result.table)).splitlines() if output is None else []
    rows = {"rows": [json.loads(line) for line in lines]} if output is None else {"output": str(output)}
    known = {"kind": result.kind, "count": result.table.num_rows, "late": dict(result.late), "joins": joins, **rows}
    return {**known, "seconds": round(seconds, 6)}


def _counted(result: CqlResult, output: Path | None) -> str:
    """How many rows there are, and where."""
    count = result.table.num_rows
    if output is not None:
        return f"{_rows(count)} in {output}"
    if result.kind == "stream":
        return _rows(count) + (f", the last {SHOWN} shown" if count > SHOWN else "")
    last = result.last.num_rows
    part = f" (the first {SHOWN} shown)" if last > SHOWN else ""
    return f"{_rows(last)} after the last input{part}, {count:,} over time (-o FILE has all of them)"


def _rows(count: int) -> str:
    return f"{count:,} row{'s' * (count != 1)}"


def _shown(result: CqlResult) -> Any:
    """The last rows of a stream, or a relation as it is in the end."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    stream = result.kind == "stream"
    table = result.table if stream else result.last
    shown = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in table.column_names:
        shown.add_column(name)
    for row in (table.slice(max(0, table.num_rows - SHOWN)) if stream else table.slice(0, SHOWN)).to_pylist():
        shown.add_row(*("" if value is None else str(value) for value in row.values()))
    return shown
