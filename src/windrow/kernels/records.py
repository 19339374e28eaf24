"""Records: words of a shard's block that are read and written by name.

A record is declared once, as a class with a line for each word: its name, its kind, what it means, and what the rest of
windrow has to know of it. layout.py declares them all. In a kernel a reference stands for one record in a block:

    at = slot_at(m, slot)        a reference: the block, and where the record begins
    at.time, at.newer = ...      its fields; numba knows the kind of each
    at.at                        where it begins, as a number

Outside of kernels, where records are lines of a matrix, the class says which column a word is: `lines[:, Stream.rows]`.
A field that not every query has stands where a word of the head says, named after it: `score` where `score_off` says.
"""

from collections.abc import Iterator
from typing import Any, ClassVar, Generic, TypeVar, overload

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    infer_getattr,
    intrinsic,
    lower_getattr_generic,
    lower_setattr_generic,
    models,
    register_model,
)

T = TypeVar("T", int, float)


class Word(Generic[T]):
    """One word of a record: what it holds, and what becomes of it.

    saved   whether snapshots keep it; what they do not keep is computed again
    moved   when it comes along to a block of another plan: "always", "same" (under the same policy), "learned" (where
            both learn alike), or never
    where   the word of the head that says where it stands, for a field that not every query has; `step` words further
    when    the property of a plan that says whether such a field is there
    names   "slot" or "key" if it holds the number of one, or NONE: it follows where these are numbered anew
    """

    def __init__(
        self,
        kind: type[T],
        about: str,
        saved: bool,
        moved: str,
        where: int | None = None,
        step: int = 0,
        when: str = "",
        names: str = "",
    ) -> None:
        self.kind: type[T] = kind
        self.about, self.saved, self.moved = about, saved, moved
        self.where, self.step, self.when, self.names = where, step, when, names
        self.name, self.offset = "", step

    @overload
    def __get__(self, record: None, kind: Any) -> int: ...

    @overload
    def __get__(self, record: "Record", kind: Any) -> T: ...

    def __get__(self, record: "Record | None", kind: Any) -> int | T:
        return self.offset if record is None else self._held(record)[self._place(record)]

    def __set__(self, record: "Record", value: T) -> None:
        self._held(record)[self._place(record)] = value

    def _held(self, record: "Record") -> Any:
        return record.w if self.kind is int else record.w.view(np.float64)

    def _place(self, record: "Record") -> int:
        return int(record.at + self.offset + (0 if self.where is None else record.w[self.where]))


def word(about: str = "", *, saved: bool = False, moved: str = "", **placed: Any) -> Word[int]:
    """A word that holds an integer."""
    return Word(int, about, saved, moved, **placed)


def real(about: str = "", *, saved: bool = False, moved: str = "", **placed: Any) -> Word[float]:
    """A word that holds a float."""
    return Word(float, about, saved, moved, **placed)


class Record:
    """A kind of record. Outside of compiled kernels, an instance is a reference."""

    words: ClassVar[dict[str, Word[Any]]]
    size: ClassVar[int]

    def __init_subclass__(cls) -> None:
        cls.words = {name: value for name, value in vars(cls).items() if isinstance(value, Word)}
        cls.size = 0
        for name, value in cls.words.items():
            value.name = name
            if value.where is None:
                value.offset = cls.size
                cls.size += 1

    @classmethod
    def fields(cls) -> Iterator[Word[Any]]:
        """The words that every record of this kind has, in order."""
        return (value for value in cls.words.values() if value.where is None)

    @classmethod
    def saved(cls) -> list[int]:
        """The words that snapshots keep."""
        return [value.offset for value in cls.fields() if value.saved]

    @classmethod
    def moved(cls, when: str) -> tuple[int, ...]:
        """The words that come along to a block of another plan."""
        return tuple(value.offset for value in cls.fields() if value.moved == when)

    @classmethod
    def naming(cls, what: str) -> list[int]:
        """The words that name slots, or keys, of those that every record has."""
        return [value.offset for value in cls.fields() if value.names == what]

    def __init__(self, w: Any, at: int) -> None:
        self.w, self.at = w, at


def optional(record: type[Record]) -> dict[int, tuple[frozenset[str], int]]:
    """The fields that not every record of a kind has, in their order, by the word of the head that says where they
    begin: the conditions under each of which they are there, and how many words they are."""
    found: dict[int, tuple[frozenset[str], int]] = {}
    for value in record.words.values():
        if value.where is not None:
            when, size = found.get(value.where, (frozenset[str](), 0))
            found[value.where] = when | {value.when}, max(size, value.step + 1)
    return found


class RecordType(types.Type):
    """The type of references to records of one kind."""

    def __init__(self, record: type[Record]) -> None:
        self.record = record
        super().__init__(f"reference({record.__name__})")


@register_model(RecordType)
class _Model(models.StructModel):
    """The block, and where the record begins."""

    def __init__(self, manager: Any, typ: Any) -> None:
        super().__init__(manager, typ, [("w", types.CPointer(types.int64)), ("at", types.int64)])


@infer_getattr
class _Fields(AttributeTemplate):
    """Fields have the kind that they are declared with."""

    key = RecordType

    def generic_resolve(self, typ: Any, attr: str) -> Any:  # type: ignore[override]  # numba says that there is none
        if attr in ("w", "at"):
            return types.int64 if attr == "at" else types.CPointer(types.int64)
        declared = typ.record.words.get(attr)
        return None if declared is None else types.float64 if declared.kind is float else types.int64


def _pointer(context: Any, builder: Any, typ: Any, value: Any, attr: str) -> Any:
    """Where a field of a record lies in memory."""
    declared = typ.record.words[attr]
    held = cgutils.create_struct_proxy(typ)(context, builder, value=value)
    place = builder.add(held.at, ir.Constant(ir.IntType(64), declared.offset))
    if declared.where is not None:
        said = builder.gep(held.w, [ir.Constant(ir.IntType(64), declared.where)])
        place = builder.add(place, builder.load(said))
    found = builder.gep(held.w, [place])
    return builder.bitcast(found, ir.DoubleType().as_pointer()) if declared.kind is float else found


@lower_getattr_generic(RecordType)
def _read(context: Any, builder: Any, typ: Any, value: Any, attr: str) -> Any:
    if attr in ("w", "at"):
        return getattr(cgutils.create_struct_proxy(typ)(context, builder, value=value), attr)
    return builder.load(_pointer(context, builder, typ, value, attr))


@lower_setattr_generic(RecordType)
def _write(context: Any, builder: Any, sig: Any, args: Any, attr: str) -> None:
    builder.store(args[1], _pointer(context, builder, sig.args[0], args[0], attr))


def reference(record: type[Record]) -> Any:
    """The function by which kernels refer to the record of a kind that begins at a place of a block."""
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        return record

    @intrinsic
    def refer(_context: Any, w: Any, at: Any) -> Any:
        typ = RecordType(record)

        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            found = cgutils.create_struct_proxy(typ)(context, builder)
            found.w, found.at = args
            return found._getvalue()

        return typ(types.CPointer(types.int64), types.int64), code

    return refer
