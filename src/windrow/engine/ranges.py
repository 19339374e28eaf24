"""Value columns: the numbers that band, distance and comparison predicates need, and the predicates' lines."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from windrow.errors import KeyTypeError, SpecError
from windrow.kernels import layout as at
from windrow.spec import Band, Compare, Distance, Duration, Predicate, Query, split_reference
from windrow.state.coding import as_word, common_key_type, common_number_type, width_in_units

COMPARISONS = {"<": at.P_LT, "<=": at.P_LE, ">": at.P_GT, ">=": at.P_GE, "!=": at.P_NE}


IDENTITY = "identity"  # the domain of the number by which deletions name a row
JOINS = "joins"  # the domain of the word that says in which of several joins a row can match
IN_ORDER = "order"  # the domain of numbers that are only compared with those of an ordered column


@dataclass(frozen=True)
class Number:
    """One value column: where it comes from and how it is coded."""

    column: str
    type: pa.DataType
    domain: str  # "int", "float", "code" for columns that are only tested for being different, JOINS IN_ORDER, IDENTITY
    refuses_nan: bool = False
    join: int = 0
    counts_as: str = ""  # "int" or "float", of what is IN_ORDER


@dataclass
class Numbers:
    """The value columns of every stream and the predicates over them, with the join of each."""

    columns: list[list[Number]]
    preds: list[np.ndarray] = field(default_factory=list)
    pred_joins: list[int] = field(default_factory=list)
    join: int = 0  # whose predicates are being added

    def matrix(self) -> np.ndarray:
        """[stream, column]: 3 what no predicate reads, 2 bits of joins, 1 float bits, 0 integers, -1 nothing."""
        kinds = {JOINS: 2, IN_ORDER: 3, IDENTITY: 3, "float": 1}
        return self._matrix(lambda c: kinds.get(c.domain, 0))

    def add_ordered(self, stream: int, number: Number) -> None:
        """A column that is only put in order, once."""
        for known in self.columns[stream]:
            if known.domain == IN_ORDER and known.column == number.column:
                if known.type != number.type:
                    raise SpecError(
                        f"column {number.column!r} is ordered, and compared with columns as {known.type} and as "
                        f"{number.type}: cast them to one type"
                    )
                return
        self.columns[stream].append(number)

    def add_identity(self, stream: int) -> None:
        """The number by which deletions name the rows of a stream: behind all others."""
        self.columns[stream].append(Number("", pa.int64(), IDENTITY))

    def joins(self) -> np.ndarray:
        """[stream, column]: the join that reads it, or -1."""
        return self._matrix(lambda c: -1 if c.domain == JOINS else c.join)

    def _matrix(self, told: Callable[[Number], int]) -> np.ndarray:
        width = max((len(c) for c in self.columns), default=0)
        found = np.full((len(self.columns), width), -1, np.int64)
        for s, columns in enumerate(self.columns):
            found[s, : len(columns)] = [told(c) for c in columns]
        return found


def numbers(query: Query, schemas: dict[str, pa.Schema]) -> Numbers:
    """The value columns and range predicates of a query; of several joins the first column says who matches where."""
    first = [Number("", pa.int64(), JOINS)] if len(query.joins) > 1 else []
    found = Numbers([list(first) for _ in query.streams])
    for found.join, named in enumerate(query.joins):
        for predicate in named.on:
            if isinstance(predicate, Band):
                _band(found, predicate, query, schemas)
            elif isinstance(predicate, Distance):
                _distance(found, predicate, query, schemas)
            elif isinstance(predicate, Compare):
                _compare(found, predicate, query, schemas)
    return found


def _types(refs: tuple[str, ...], schemas: dict[str, pa.Schema]) -> list[pa.DataType]:
    return [schemas[s].field(c).type for s, c in map(split_reference, refs)]


def _line(kind: int, found: Numbers, predicate: Predicate, query: Query) -> np.ndarray:
    """A predicate's line with its streams; its columns come next in each stream."""
    line = np.zeros(at.PRED_SIZE, np.int64)
    left, right = (query.names.index(s) for s in predicate.streams)
    line[at.Predicate.kind] = kind
    line[at.Predicate.left], line[at.Predicate.right] = left, right
    line[at.Predicate.left_col], line[at.Predicate.right_col] = len(found.columns[left]), len(found.columns[right])
    line[at.Predicate.dims] = 1
    found.preds.append(line)
    found.pred_joins.append(found.join)
    return line


def _add(found: Numbers, query: Query, ref: str, type_: pa.DataType, domain: str, nan: bool = False) -> None:
    stream, column = split_reference(ref)
    found.columns[query.names.index(stream)].append(Number(column, type_, domain, nan, found.join))


def _band(found: Numbers, predicate: Band, query: Query, schemas: dict[str, pa.Schema]) -> None:
    refs = (predicate.left, predicate.right)
    domain, type_ = common_number_type(_types(refs, schemas), refs)
    line = _line(at.P_BAND, found, predicate, query)
    width = predicate.width
    amount, unit = (width.amount, width.unit) if isinstance(width, Duration) else (width, "steps")
    limit = width_in_units(amount, unit, type_, str(predicate))  # type: ignore[arg-type]
    line[at.Predicate.is_float] = domain == "float"
    line[at.Predicate.width] = as_word(int(limit)) if domain == "int" else 0
    line[at.Predicate.limit : at.Predicate.limit + 1].view(np.float64)[0] = float(limit)
    for ref in refs:
        _add(found, query, ref, type_, domain, domain == "float")


def _distance(found: Numbers, predicate: Distance, query: Query, schemas: dict[str, pa.Schema]) -> None:
    for ref in predicate.columns:
        common_number_type(_types((ref,), schemas), (ref,))
    line = _line(at.P_DISTANCE, found, predicate, query)
    line[at.Predicate.is_float], line[at.Predicate.dims] = 1, len(predicate.left)
    line[at.Predicate.limit : at.Predicate.limit + 1].view(np.float64)[0] = float(predicate.limit)
    for ref in predicate.columns:
        _add(found, query, ref, pa.float64(), "float", True)


def _compare(found: Numbers, predicate: Compare, query: Query, schemas: dict[str, pa.Schema]) -> None:
    refs = (predicate.left, predicate.right)
    types = _types(refs, schemas)
    try:
        domain, type_ = common_number_type(types, refs)
    except KeyTypeError:
        if predicate.op != "!=":
            raise
        domain, type_ = "code", common_key_type(types, refs)  # type: ignore[assignment]
    line = _line(COMPARISONS[predicate.op], found, predicate, query)
    line[at.Predicate.is_float] = domain == "float"
    for ref in refs:
        _add(found, query, ref, type_, domain)
