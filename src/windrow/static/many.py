"""`windrow.static.truncate_many`: several relations with one key, each truncated by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.engine.intake import as_table
from windrow.errors import SpecError
from windrow.offline.truncation import check_keep
from windrow.offline.truncation_sides import ndg_many
from windrow.spark.frames import is_spark_frame
from windrow.spec import Query, Stream
from windrow.static.keys import key_columns, labels
from windrow.static.tables import check_tables, joined, kept_rows, key_of


@dataclass(frozen=True)
class TruncatedMany:
    """Several relations truncated for their join."""

    tables: dict[str, pa.Table]
    matches: int
    exact_matches: int
    query: Query

    @property
    def recall(self) -> float:
        """Matches kept over matches of all rows; 1 where there are none."""
        return self.matches / self.exact_matches if self.exact_matches else 1.0

    def join(self) -> pa.Table:
        """The join of the truncated relations."""
        return joined(self.query, self.tables)


def truncate_many(relations: Mapping[str, Any], on: Any, *, keep: Mapping[str, int]) -> TruncatedMany:
    """Keep so many rows of each of several tables that are joined on one key, those with the most matches.

    With r relations at most r times as many matches are lost as must be; no fast way to lose the fewest is known from
    three relations on, for it is NP-hard. A relation that `keep` does not name is kept whole.

    >>> keys = {"a": [1, 1, 2], "b": [1, 2, 2], "c": [1, 1, 2]}
    >>> tables = {name: pa.table({"k": values}) for name, values in keys.items()}
    >>> result = truncate_many(tables, on="k", keep={"a": 2, "c": 2})
    >>> result.matches, result.exact_matches
    (4, 6)
    """
    if not isinstance(relations, Mapping) or len(relations) < 2:
        raise SpecError("truncate_many needs at least two relations, by name: {'a': table, 'b': table, 'c': table}")
    if any(is_spark_frame(data) for data in relations.values()):
        raise SpecError("truncate_many takes tables; on Spark, truncate takes two DataFrames")
    tables = {name: as_table(data, name) for name, data in relations.items()}
    check_tables(tables)
    if not isinstance(keep, Mapping):
        raise SpecError(f"keep says how many rows of each relation to keep, such as {{'a': 100}}, got {keep!r}")
    for name in keep:
        if name not in tables:
            raise SpecError(f"keep names the relation {name!r}, which is not given")
    query = Query(streams=[Stream(name) for name in tables], on=on)
    keys = key_columns(query, {name: table.schema for name, table in tables.items()})
    label, count = labels([key_of(t, c) for t, c in zip(tables.values(), keys.columns, strict=True)], keys.types)
    counts = [np.bincount(one[one >= 0], minlength=count) for one in label]
    nulls = [int((one < 0).sum()) for one in label]
    wanted = [keep.get(name, table.num_rows) for name, table in tables.items()]
    for name, rows, table in zip(tables, wanted, tables.values(), strict=True):
        check_keep(rows, table.num_rows, f"keep of {name!r}")
    kept = ndg_many(counts, [min(int(w), int(c.sum())) for w, c in zip(wanted, counts, strict=True)])
    parts = {}
    for k, (name, table) in enumerate(tables.items()):
        spare = min(nulls[k], int(wanted[k]) - int(kept[k].sum()))
        parts[name] = table.filter(pa.array(kept_rows(label[k], kept[k], spare)))
    return TruncatedMany(parts, int(np.prod(kept, axis=0).sum()), int(np.prod(counts, axis=0).sum()), query)
