"""`windrow.join`: two tables in, their join inside a budget out. `windrow.compare`: what a result has lost."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from windrow.engine import Metrics
from windrow.engine.intake import as_table
from windrow.errors import InputError, MissingDependency, SpecError
from windrow.feed import CodedTables, engine_for, run
from windrow.policies import Policy
from windrow.quality.compared import DISTANCES, Compared, measured
from windrow.spark.frames import is_spark_frame
from windrow.spec import Constraint, DurationLike, Memory, Monitored, OnViolation, Value, WindowLike, pair_query
from windrow.spec.output import Selection


@dataclass(frozen=True)
class Result:
    """What a join gave: the matches, and what they cost."""

    table: pa.Table
    metrics: Metrics

    @property
    def recall(self) -> float | None:
        """Matches produced over matches of the exact join."""
        return self.metrics.recall

    def to_pandas(self) -> Any:
        """The matches as a pandas data frame."""
        try:
            return self.table.to_pandas()
        except ModuleNotFoundError as error:
            raise MissingDependency.of("pandas", "Result.to_pandas") from error

    def to_polars(self) -> Any:
        """The matches as a Polars data frame."""
        try:
            import polars
        except ImportError as error:
            raise MissingDependency.of("polars", "Result.to_polars") from error
        return polars.from_arrow(self.table)


def join(
    left: Any,
    right: Any,
    on: Any,
    time: str | Mapping[str, str] | None = None,
    within: WindowLike | Mapping[str, WindowLike] | None = None,
    memory: Memory | int | str | None = None,
    policy: Policy | str = "auto",
    *,
    lateness: DurationLike | Mapping[str, DurationLike] = 0,
    where: Mapping[str, Iterable[Any]] | None = None,
    select: Selection | None = None,
    value: Value | None = None,
    on_full: Literal["shed", "fail"] = "shed",
    order: Literal["time", "arrival"] = "time",
    seed: int = 0,
    patience: DurationLike | None = None,
    recall: bool = True,
    shards: int | None = None,
    archive: str | os.PathLike[str] | None = None,
    sample: float | Literal["unbiased"] | None = None,
    constraints: Literal["watch", "auto"] | Monitored | Constraint | Iterable[Constraint] | None = None,
    on_violation: OnViolation = "lose",
) -> Any:
    """Join two streams: rows meet when they match and lie within each other's windows.

    Tables are joined here, as if they were streams, and give a `Result`. Spark DataFrames, streaming or batch, are
    joined by Spark and give a DataFrame.

    Parameters:
        left, right: Arrow tables, pandas or Polars data frames; or two Spark DataFrames.
        on: a column that both have, a list of such, or predicates over "left.column" and "right.column".
        time: the event-time column (of each side, if they differ); None takes the row number as time.
        within: the window, as a duration or a Window; one for both sides or one for each. Rows exactly that far apart
            do not match: `Window.time("10 minutes", closed="both")` takes them in. A side without one is kept for ever.
        memory: the budget: bytes ("64 MB"), rows (100_000), or a share of the rows that the exact join holds at its
            peak ("20%", for which the exact join is counted first); None for an exact join.
        policy: what to shed when the budget is full.
        lateness: how far rows may be out of order; rows later than that are counted and left out. Without it
            the tables are sorted by time first. On Spark the delay of `withWatermark`, if that is declared.
        patience: how far ahead a stream may run before a silent one is no longer waited for; None waits for ever.
            Tables are taken in step with each other and need none.
        sample: leave rows out in front of memory: probed, but never stored. The probability of it, or "unbiased" for
            as much as lets rows stay until they expire: fewer matches, but their keys spread as in the exact join.
        shards: into how many independent slices the join is cut, by the hash of its key, so that all cores are used;
            memory is divided among them. Tables are joined in as many threads, and None is one. See also
            `windrow.spark.on_spark`.
        archive: on Spark only, see `windrow.spark.on_spark`.
        constraints, on_violation: what is known about the sides, "left" and "right", see `windrow.Query`.

    >>> left = pa.table({"user": [1, 2, 1], "ts": [0, 1, 5]})
    >>> right = pa.table({"user": [1, 1, 2], "ts": [2, 9, 3], "page": ["a", "b", "c"]})
    >>> result = join(left, right, on="user", time="ts", within=5)
    >>> result.table.sort_by("left_ts").to_pylist()
    ... # doctest: +NORMALIZE_WHITESPACE
    [{'user': 1, 'left_ts': 0, 'right_ts': 2, 'page': 'a'}, {'user': 2, 'left_ts': 1, 'right_ts': 3, 'page': 'c'},
     {'user': 1, 'left_ts': 5, 'right_ts': 2, 'page': 'a'}, {'user': 1, 'left_ts': 5, 'right_ts': 9, 'page': 'b'}]
    """
    query = pair_query(
        on, time, within, memory, policy, lateness=lateness, where=where, select=select, value=value,
        on_full=on_full, order=order, patience=patience, seed=seed, sample=sample, shards=shards,
        constraints=constraints, on_violation=on_violation,
    )  # fmt: skip
    if is_spark_frame(left) or is_spark_frame(right):
        from windrow import spark

        return spark.on_spark(query, {"left": left, "right": right}, archive=archive, recall=recall)
    if archive is not None:
        raise InputError("an archive is for Spark DataFrames: tables are joined in this process")
    tables = CodedTables({"left": as_table(left, "left"), "right": as_table(right, "right")})
    engine = engine_for(query, tables, recall)
    pieces = list(run(engine, tables))
    return Result(pa.concat_tables(pieces), engine.metrics)


def compare(
    approximate: Any,
    exact: Any,
    columns: Sequence[str] | None = None,
    *,
    coordinates: Sequence[str] = (),
    measures: Sequence[str] | None = None,
    penalty: float = 1.0,
    archived: int | None = None,
) -> Compared:
    """Compare an approximate result with the exact one, as multisets of rows.

    Parameters:
        approximate, exact: Arrow tables, pandas or Polars data frames.
        columns: what makes two rows equal; None for all, which both must then have.
        coordinates: numeric columns (times too) that say where a row is. With them the Earth Mover's distance and
            Match-And-Compare are taken as well, or those of the two that `measures` names.
        measures: names of measures; what is not named of the costly ones is left out.
        penalty: what Match-And-Compare asks for each row that stands in for a missing one.
        archived: rows shed into an archive; with it the archive metric is told.

    >>> found = compare(pa.table({"k": [1, 1, 2]}), pa.table({"k": [1, 2, 2, 3]}), coordinates=["k"])
    >>> found.jaccard, found.missing, found.earth_movers.distance
    (0.4, 2, 0.3333333333333333)
    """
    tables = [as_table(approximate, "approximate"), as_table(exact, "exact")]
    columns, coordinates = _names(columns, "columns"), _names(coordinates, "coordinates") or []
    if columns == []:
        raise SpecError("columns names none, so that all rows would be equal: name some, or leave it out for all")
    measures = _names(measures, "measures")
    if measures is None:
        measures = DISTANCES if coordinates else ()
    return measured(tables[0], tables[1], columns, coordinates, measures, penalty, archived)


def _names(given: Any, what: str) -> list[str] | None:
    """A list of names; one name alone is a list of one."""
    if given is None or isinstance(given, str):
        return None if given is None else [given]
    if isinstance(given, Mapping) or not isinstance(given, Iterable) or not all(isinstance(n, str) for n in given):
        raise SpecError(f"{what} must be a list of names, got {given!r}")
    return list(given)
