"""Keys of several relations as labels: equal keys, and only they, have the same one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.engine.equality import directories
from windrow.errors import SpecError, UnknownColumn
from windrow.spec import Equal, Query, split_reference
from windrow.state.coding import cast_keys, exact_codes, key_codes, keys_equal

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class KeyColumns:
    """The key columns of each relation, and the types in which they are compared."""

    columns: tuple[tuple[str, ...], ...]
    types: tuple[pa.DataType, ...]


def key_columns(query: Query, schemas: Mapping[str, pa.Schema]) -> KeyColumns:
    """The key of a query that has nothing but one equality key over all its streams."""
    query.refuse_names("a static join")
    query.refuse_deletions("a static join knows insertions only")
    for predicate in query.predicates:
        if not isinstance(predicate, Equal):
            raise SpecError(f"a static join needs equalities only, got {predicate}")
        for stream, column in map(split_reference, predicate.columns):
            if column not in schemas[stream].names:
                raise UnknownColumn.of(column, schemas[stream].names, f"on: relation {stream!r}")
    found = directories(query, dict(schemas))
    if len(found) != 1 or len(found[0].columns) != len(query.names):
        raise SpecError("a static join needs one key that all relations share: name the same columns of each in on")
    return KeyColumns(tuple(found[0].columns[k] for k in range(len(query.names))), found[0].types)


def labels(
    relations: Sequence[Sequence[Any]], types: Sequence[pa.DataType], mask: int = 2**64 - 1
) -> tuple[list[Ints], int]:
    """A label for each row of each relation, given by its key columns; -1 where a key is null. And how many labels.

    Labels follow the order in which keys first appear. Codes of text or of several columns are hashes: rows of one
    code are compared with the first of them, and those that differ get labels of their own. `mask` is a seam for
    tests of that.
    """
    cast = [cast_keys(columns, types) for columns in relations]
    coded = [key_codes(columns, types, mask=mask) for columns in cast]
    codes = np.concatenate([code for code, _ in coded])
    valid = np.concatenate([np.ones(len(c), np.bool_) if v is None else v for c, v in coded])
    label = np.full(len(codes), -1, np.int64)
    pending, count = np.flatnonzero(valid), 0
    together = [_concatenated(parts) for parts in zip(*cast, strict=True)]
    while len(pending):
        encoded = pa.array(codes[pending]).dictionary_encode()
        place = encoded.indices.to_numpy().astype(np.int64)
        label[pending] = count + place
        if exact_codes(types):
            count += len(encoded.dictionary)
            break
        first = np.empty(len(encoded.dictionary), np.int64)
        first[place[::-1]] = pending[::-1]
        pending, count = pending[_differ(together, pending, first[place])], count + len(first)
    ends = np.cumsum([len(code) for code, _ in coded])[:-1]
    return np.split(label, ends), count


def _concatenated(parts: Sequence[Any]) -> pa.ChunkedArray:
    return pa.chunked_array([c for part in parts for c in getattr(part, "chunks", [part])], parts[0].type)


def _differ(columns: Sequence[pa.ChunkedArray], one: Ints, other: Ints) -> NDArray[np.bool_]:
    sides = [[column.take(pa.array(rows)) for column in columns] for rows in (one, other)]
    return ~keys_equal(*sides)
