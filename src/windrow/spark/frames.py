"""Spark DataFrames as streams: what they are, what their columns are in Arrow, what they say about lateness."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from windrow.errors import DuplicateColumn, InputError, KeyTypeError, SpecError

WATERMARK_DELAY = "spark.watermarkDelayMs"
OWN = "windrow_"
BINARY = "UTF8_BINARY"  # the collation of texts unless told otherwise


def is_spark_frame(data: Any) -> bool:
    """Whether something is a DataFrame of Spark, classic or Connect; pyspark is not imported for it."""
    return any(c.__name__ == "DataFrame" and c.__module__.startswith("pyspark.sql.") for c in type(data).__mro__)


def _kind(data: Any) -> str:
    """The name of a type, with the package that it is of."""
    package = type(data).__module__.partition(".")[0]
    return type(data).__name__ if package == "builtins" else f"{package}.{type(data).__name__}"


def check_frames(names: Sequence[str], frames: Mapping[str, Any]) -> None:
    """Every stream of a query has one frame, all of one session and all streaming or none."""
    for name in names:
        if name not in frames:
            raise InputError(f"no DataFrame is given for the stream {name!r}")
        if not is_spark_frame(frames[name]):
            raise InputError(f"stream {name!r} must be a Spark DataFrame, got {_kind(frames[name])}")
    if unknown := [name for name in frames if name not in names]:
        raise InputError(f"the query has no stream {unknown[0]!r}")
    kinds = {name: bool(frames[name].isStreaming) for name in names}
    if len(set(kinds.values())) > 1:
        listed = ", ".join(f"{name} is {'streaming' if s else 'static'}" for name, s in kinds.items())
        raise SpecError(
            f"all frames must be streaming, or none: {listed}; rows that are all there are joined with a stream by "
            "Spark's own join, stream.join(static, ...), before or behind this one"
        )


def arrow_schema(frame: Any, stream: str, only: Collection[str] | None = None) -> pa.Schema:
    """A frame's columns in Arrow, all or some, times in UTC; types that cannot travel to Python are refused here, at
    plan time."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_type

    names = frame.columns
    if twice := [name for name in names if names.count(name) > 1]:
        raise DuplicateColumn(f"stream {stream!r} has two columns called {twice[0]!r}: rename one of them")
    fields = []
    for field in frame.schema.fields:
        if only is not None and field.name not in only:
            continue
        try:
            fields.append(pa.field(field.name, to_arrow_type(field.dataType, timezone="UTC")))
            _refuse_nested_twins(fields[-1].type)
        except (PySparkException, TypeError, ValueError) as error:
            raise SpecError(
                f"stream {stream!r}: column {field.name!r} has type {field.dataType.simpleString()}, which cannot be "
                "sent to Python: cast it, or drop it before the join"
            ) from error
    return pa.schema(fields)


def _refuse_nested_twins(kind: pa.DataType) -> None:
    """Refuse structs with two fields of one name: Spark sends none of them to Python, and says so when a task runs."""
    inner = [kind.field(k) for k in range(kind.num_fields)]
    if pa.types.is_struct(kind) and len({field.name for field in inner}) < len(inner):
        raise ValueError("two fields have one name")
    for field in inner:
        _refuse_nested_twins(field.type)


def spark_schema(schema: pa.Schema) -> tuple[Any, pa.Schema]:
    """Columns of Arrow as Spark has them, and as they travel there."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
    from pyspark.sql.types import StructField, StructType

    fields, travelling = [], []
    for field in schema:
        try:
            fields.append(StructField(field.name, from_arrow_type(field.type, prefer_timestamp_ntz=True)))
            travelling.append(pa.field(field.name, to_arrow_type(fields[-1].dataType, timezone="UTC")))
        except (PySparkException, TypeError, ValueError) as error:
            raise SpecError(f"output column {field.name!r} has type {field.type}, which Spark has not") from error
    return StructType(fields), pa.schema(travelling)


def declared_lateness(frame: Any, name: str, time: str | None) -> int | None:
    """The delay in milliseconds that `withWatermark` has declared on a stream's time column, if any."""
    if not frame.isStreaming:
        return None
    delays = {f.name: int(f.metadata[WATERMARK_DELAY]) for f in frame.schema.fields if WATERMARK_DELAY in f.metadata}
    if delays and time not in delays:
        raise SpecError(
            f"stream {name!r} has a watermark on {next(iter(delays))!r}, but its time is {time!r}, and "
            "Spark has one watermark per stream: declare it on the time column, or leave it out and give lateness="
        )
    return delays.get(str(time))


def by_place(frame: Any, columns: Collection[str]) -> Any:
    """Some columns of a frame, called by their places.

    Spark takes dots and backticks in names for syntax, and may not tell upper from lower case.
    """
    places = [f"c{k}" for k in range(len(frame.columns))]
    return frame.toDF(*places).select(*(p for p, c in zip(places, frame.columns, strict=True) if c in columns))


def is_case_sensitive(frame: Any) -> bool:
    """Whether the session of a frame tells columns apart that differ in case only."""
    return str(frame.sparkSession.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"


def refuse_twins(names: Iterable[str], where: str, what: str, case_sensitive: bool) -> None:
    """Refuse columns that Spark does not tell apart."""
    seen: dict[str, str] = {}
    for name in () if case_sensitive else names:
        if (other := seen.setdefault(name.lower(), name)) != name:
            raise DuplicateColumn(
                f"{where} would have columns {other!r} and {name!r}, which Spark does not tell apart: {what}"
            )


def refuse_collated(frame: Any, stream: str, compared: Collection[str]) -> None:
    """Refuse columns that are compared, and that Spark would compare by a collation: windrow compares bytes."""
    for field in frame.schema.fields:
        collation = getattr(field.dataType, "collation", BINARY)
        if field.name in compared and collation != BINARY:
            raise KeyTypeError(
                f"stream {stream!r}: column {field.name!r} has collation {collation}, and windrow compares texts byte "
                f"by byte: cast it to string collate {BINARY}, for a comparison without case as lower(...)"
            )


def refuse_own(names: Iterable[str], where: str) -> None:
    """Refuse columns that are called as windrow's own are in an archive."""
    if own := [name for name in names if name.lower().startswith(OWN)]:
        raise DuplicateColumn(
            f"{where} has a column {own[0]!r}, but names that begin with {OWN} are windrow's in an archive: rename it"
        )


def quoted(column: str) -> str:
    """A column's name as it is written in an expression."""
    return "`" + column.replace("`", "``") + "`"
