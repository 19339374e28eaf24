"""Output and Value: the columns of a match, and what a match is worth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from windrow.errors import DuplicateColumn, SpecError
from windrow.record import Record, name_text, one_of
from windrow.spec.references import is_stream_name, split_reference


@dataclass(frozen=True, init=False)
class Output(Record):
    """One column of the matches: where it comes from, and its name there.

    >>> Output("orders.price"), Output("orders.price", "paid")
    (Output(column='orders.price', name='price'), Output(column='orders.price', name='paid'))
    """

    column: str
    name: str

    def __init__(self, column: str, name: str | None = None) -> None:
        own = split_reference(column, "an output column")[1]
        own = own if name is None else name_text(name, f"the output name of {column!r}")
        self._set(column=column, name=own)


OutputLike = str | tuple[str, str] | Output
Selection = OutputLike | Mapping[str, str] | Iterable[OutputLike | Mapping[str, str]]
"""What stands for output columns: "left.x", {"x": "left.x"}, an Output, or a list of these and of pairs."""


def parse_select(select: Selection | None) -> tuple[Output, ...] | None:
    """The output columns that `select` stands for, of different names; None, for all columns, stays."""
    if select is None:
        return None
    single = isinstance(select, (str, Output, Mapping))
    if not single and not isinstance(select, Iterable):
        raise SpecError(f"select must be a list of columns 'stream.column', got {select!r}")
    entries: Any = (select,) if single else select
    outputs = tuple(output for entry in entries for output in _outputs(entry))
    if not outputs:
        raise SpecError("select names no column: leave it out to get all columns")
    _refuse_duplicates(outputs)
    return outputs


def _outputs(entry: Any) -> list[Output]:
    if isinstance(entry, Output):
        return [entry]
    if isinstance(entry, Mapping):
        return [Output(column, name) for name, column in entry.items()]
    if isinstance(entry, (tuple, list)):
        if len(entry) != 2:
            raise SpecError(f"an output column must be a pair ('stream.column', 'name'), got {entry!r}")
        return [Output(entry[0], entry[1])]
    return [Output(entry)]


def _refuse_duplicates(outputs: tuple[Output, ...]) -> None:
    seen: dict[str, Output] = {}
    for output in outputs:
        other = seen.setdefault(output.name, output)
        if other is not output:
            renamed = output.column.replace(".", "_")
            raise DuplicateColumn(
                f"the output columns {other.column} and {output.column} are both named {output.name!r}: "
                f"rename one, as in ({output.column!r}, {renamed!r})"
            )


@dataclass(frozen=True, init=False)
class Value(Record):
    """What a match is worth: the product, or the sum, of one numeric column per stream.

    Policies that weigh matches then shed the rows that cost the least value instead of the fewest matches.

    Parameters:
        columns: the column that counts, per stream; a stream left out counts as 1 in a product, 0 in a sum.
        combine: "product" or "sum".
    """

    columns: tuple[tuple[str, str], ...]
    combine: Literal["product", "sum"]

    def __init__(
        self,
        columns: Mapping[str, str] | Iterable[tuple[str, str]],
        combine: Literal["product", "sum"] = "product",
    ) -> None:
        try:
            pairs = dict(columns)
        except (TypeError, ValueError):
            raise SpecError(f"Value: columns must map streams to columns, got {columns!r}") from None
        if not pairs:
            raise SpecError("Value needs the column of at least one stream, as in Value({'left': 'price'})")
        for stream, column in pairs.items():
            if not is_stream_name(stream):
                raise SpecError(f"Value: columns must map streams to columns, got the stream {stream!r}")
            name_text(column, f"Value: the column of stream {stream!r}")
        one_of(combine, ("product", "sum"), "Value: combine")
        self._set(columns=tuple(sorted(pairs.items())), combine=combine)

    def to_dict(self) -> dict[str, Any]:
        return {"columns": dict(self.columns), "combine": self.combine}
