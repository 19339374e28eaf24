"""`windrow.static.truncate`: the truncated join of two relations, tables or Spark DataFrames."""

from __future__ import annotations

from typing import Any

from windrow.engine.intake import as_table
from windrow.spark.frames import is_spark_frame
from windrow.spec import pair_query
from windrow.static.choice import Budget, Method, check_method
from windrow.static.keys import key_columns
from windrow.static.result import Truncated
from windrow.static.tables import check_tables, truncate_tables


def truncate(
    left: Any,
    right: Any,
    on: Any,
    *,
    keep: int | None = None,
    drop: int | None = None,
    keep_a: int | None = None,
    keep_b: int | None = None,
    drop_a: int | None = None,
    drop_b: int | None = None,
    method: Method = "optimal",
) -> Truncated:
    """Keep only so many rows of two relations, so that their equality join loses as few matches as possible.

    Parameters:
        left, right: Arrow tables, pandas or Polars data frames; or two Spark DataFrames that are not streaming.
        on: a column that both have, a list of such, or `Equal` predicates over "left.column" and "right.column".
        keep, drop: rows to keep, or to drop, of both relations together.
        keep_a, keep_b, drop_a, drop_b: the same for the left (a) and the right relation (b), each with a budget of
            its own; one that has none is kept whole.
        method: "optimal"; "adg", average degree greedy, for a budget in all; "ndg", node degree greedy, for one by
        side.

    Exactly so many rows are kept. Of a key the first ones in a table's order; on Spark those whose contents hash
    lowest, so that a recomputation keeps the same. Rows that match nothing are kept only when all others are,
    those with a null key last. A budget in all is always answered by a best choice; budgets by side are, where
    `Truncated.optimal` says so, and otherwise `Truncated.bound` says how far from it the answer is at most.

    >>> import pyarrow as pa
    >>> left = pa.table({"k": [1, 1, 1, 2, 3], "x": [10, 11, 12, 13, 14]})
    >>> right = pa.table({"k": [1, 1, 1, 2, 2, 4], "y": [1, 2, 3, 4, 5, 6]})
    >>> result = truncate(left, right, on="k", keep=6)
    >>> result.matches, result.exact_matches, result.join().num_rows, result.left["x"].to_pylist()
    (9, 11, 9, [10, 11, 12])
    """
    budget = Budget(keep, drop, keep_a, keep_b, drop_a, drop_b)
    budget.check()
    check_method(method, budget)
    query = pair_query(on)
    if is_spark_frame(left) or is_spark_frame(right):
        from windrow.static.frames import truncate_frames

        return truncate_frames(query, {"left": left, "right": right}, budget, method)
    tables = {"left": as_table(left, "left"), "right": as_table(right, "right")}
    check_tables(tables)
    keys = key_columns(query, {name: table.schema for name, table in tables.items()})
    return truncate_tables(query, tables, keys, budget, method)
