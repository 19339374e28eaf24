"""Emitting: payload rows of matches become output rows."""

from itertools import pairwise

import numpy as np
import pyarrow as pa

from windrow.engine.bind import Binding
from windrow.state.coding import cast_keys, keys_equal


def schema(binding: Binding) -> pa.Schema:
    """The output's columns."""
    query = binding.query
    return pa.schema(
        [binding.schemas[query.names[o.stream]].field(o.column).with_name(o.name) for o in binding.outputs]
    )


def matches(binding: Binding, payloads: list[pa.Table], found: np.ndarray) -> pa.Table:
    """Output rows of matches given as payload rows [stream, match]; matches of colliding codes are left out."""
    index = [pa.array(rows) for rows in found]
    true = _verified(binding, payloads, index)
    if true is not None:
        index = [pa.array(rows[true]) for rows in found]
    columns: dict[tuple[int, str], pa.ChunkedArray] = {}
    for output in binding.outputs:
        where = (output.stream, output.column)
        if where not in columns:
            columns[where] = payloads[output.stream][output.column].take(index[output.stream])
    arrays = [columns[o.stream, o.column] for o in binding.outputs]
    return pa.Table.from_arrays(arrays, schema=schema(binding))


def _verified(binding: Binding, payloads: list[pa.Table], index: list[pa.Array]) -> np.ndarray | None:
    """Which matches have truly equal keys, or None if all have: hashed keys are compared in full."""
    true: np.ndarray | None = None
    for directory in binding.directories:
        if directory.exact:
            continue
        sides = {
            s: cast_keys([payloads[s][c].take(index[s]) for c in columns], directory.types)
            for s, columns in directory.columns.items()
        }
        for left, right in pairwise(sorted(sides)):
            equal = keys_equal(sides[left], sides[right])
            true = equal if true is None else true & equal
    return None if true is None or bool(true.all()) else true
