"""`windrow join --engine spark`: the same join, cut into shards, in a Spark session on this machine."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from windrow import errors as refusals
from windrow.errors import InputError, SpecError, WindrowError

if TYPE_CHECKING:
    from windrow.cli.inputs import Input
    from windrow.cli.report import Summary
    from windrow.spec import Query

MOST_SHARDS = 8  # unless more are asked for

# To the microsecond, where Spark writes milliseconds; and texts as they are, in the quotes of everyone else.
_TIMES = {"timestampFormat": "yyyy-MM-dd HH:mm:ss.SSSSSSXXX", "timestampNTZFormat": "yyyy-MM-dd HH:mm:ss.SSSSSS"}
_ISO_TIMES = {name: form.replace(" ", "'T'") for name, form in _TIMES.items()}
_COLUMNS = {"header": True, "escape": '"', "ignoreLeadingWhiteSpace": False, "ignoreTrailingWhiteSpace": False}
_FORMATS: dict[str, tuple[str, dict[str, Any]]] = {
    "Parquet": ("parquet", {}),
    "CSV": ("csv", {**_TIMES, **_COLUMNS}),
    "TSV": ("csv", {**_TIMES, **_COLUMNS, "sep": "\t"}),
    "JSON lines": ("json", {**_ISO_TIMES, "ignoreNullFields": False}),
}


def join(query: Query, inputs: dict[str, Input], output: Path, recall: bool, errors: Any) -> Summary:
    """Join on Spark, and write the matches as a folder of files."""
    from windrow.lab.session import local_session

    if any(stream.lateness.amount for stream in query.streams):
        raise SpecError("--lateness is about the order of rows in the files, which Spark does not keep: leave it out")
    if query.demotes is not None:
        raise SpecError("--on-violation demote is for --engine embedded: on Spark broken constraints lose matches")
    if output.exists():
        raise InputError(f"{output}: this exists already, and Spark writes a folder; choose another name")
    shards = query.shards or min(os.cpu_count() or 1, MOST_SHARDS)
    # Java has a current directory of its own: it is given whole paths.
    hidden = output.resolve().with_name(f".{output.name}.{secrets.token_hex(4)}.tmp")
    hidden.mkdir()
    waiting = errors.status("joining on Spark") if errors.is_terminal else nullcontext()
    try:
        with waiting, local_session(shards) as session, _reported():
            return _joined(session, query, inputs, output, hidden, shards, recall)
    finally:
        shutil.rmtree(hidden, ignore_errors=True)


def _joined(
    session: Any, query: Query, inputs: dict[str, Input], output: Path, hidden: Path, shards: int, recall: bool
) -> Summary:
    from windrow import spark
    from windrow.cli.report import Summary, tick_of
    from windrow.files import open_writer
    from windrow.spark.frames import arrow_schema

    frames = {side: _frame(session, given, hidden / f"{side}.parquet") for side, given in inputs.items()}
    matches = spark.on_spark(query, frames, shards=shards, recall=recall)
    open_writer(output, arrow_schema(matches, "the output"))  # refuses what the format cannot hold
    started = perf_counter()
    _write(matches, output, hidden / "matches")
    seconds = perf_counter() - started
    (hidden / "matches").rename(output)
    budget = "no limit" if query.memory is None else f"{query.memory} over {shards} shards"
    found = spark.metrics(matches).total(query.names)
    if not found.arrived:  # no shard has reported anything, so nothing was lost
        found = replace(found, recall=1.0, recall_interval=(1.0, 1.0), exact_matched=0.0)
    times = [frames[stream.name].schema[stream.time].dataType.typeName() for stream in query.streams if stream.time]
    unit = "us" if any(kind.startswith(("timestamp", "date")) for kind in times) else "steps"
    return Summary(found, budget, seconds, str(output), tick_of(unit), "rows per second, compiling included")


def _frame(session: Any, given: Input, copy: Path) -> Any:
    """A file as a DataFrame: Parquet that Spark can read as it is, anything else as a copy in Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from windrow.files.names import reported
    from windrow.files.parquet import ParquetSource

    source = given.source
    nanoseconds = any(pa.types.is_timestamp(f.type) and f.type.unit == "ns" for f in source.schema)
    if isinstance(source, ParquetSource) and given.as_stored and not nanoseconds:
        names = given.columns if given.columns is not None else source.schema.names
        reader = session.read.option("mergeSchema", True)
        if source.path.is_dir():
            reader = reader.option("basePath", str(source.path.resolve()))
        frame = reader.parquet(*(str(file.resolve()) for file in source.files))
        return frame.select(*("`" + name.replace("`", "``") + "`" for name in names))
    batches = given.batches()
    first = next(batches)  # there always is one
    doing = "copying for Spark, which has microseconds,"
    with reported(source.path, doing), pq.ParquetWriter(copy, first.schema, coerce_timestamps="us") as writer:
        for batch in chain([first], batches):
            writer.write_batch(batch)
    return session.read.parquet(str(copy))


def _write(matches: Any, output: Path, folder: Path) -> None:
    from windrow.files.names import format_of

    form = format_of(output)
    name, options = _FORMATS[form.kind]
    options = {**options, "compression": "gzip"} if form.gzip else options
    matches.write.format(name).options(**options).save(str(folder))


@contextmanager
def _reported() -> Iterator[None]:
    """What goes wrong in Spark as one line: a worker's own refusal where that is what it was."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        if found := re.findall(r"^windrow\.errors\.(\w+): (.+)$", str(error), re.MULTILINE):
            kind, message = found[-1]
            refusal: type[WindrowError] = getattr(refusals, kind, WindrowError)
            raise refusal(f"in one of the shards {message}") from error
        raise WindrowError(f"Spark: {str(error).strip().splitlines()[0]}") from error
