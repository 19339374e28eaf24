"""All errors that windrow raises on purpose.

Every message says what is wrong, where, and what to do. The constructors take one finished message, so
that an error survives the trip from a worker process unchanged; `of` builds the message where several
places need the same wording.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = [
    "CqlError",
    "DuplicateColumn",
    "InputError",
    "KeyTypeError",
    "MemoryFull",
    "MemoryTooSmall",
    "MissingDependency",
    "SnapshotError",
    "SpecError",
    "TimeError",
    "UnknownColumn",
    "UnknownPolicy",
    "WindrowError",
]


class WindrowError(Exception):
    """Base class of every error that windrow raises on purpose."""


class SpecError(WindrowError, ValueError):
    """A part of a query has a value that makes no sense."""


class UnknownColumn(SpecError):
    """A query names a column that its stream does not have."""

    @classmethod
    def of(cls, column: str, columns: Iterable[str], where: str) -> UnknownColumn:
        """The error for `column`, looked for in `where` ("stream 'left'"), which has `columns`."""
        return cls(f"{where} has no column {column!r}{alternatives(column, columns, 'columns')}")


class CqlError(SpecError):
    """A query text cannot be read, or asks for what is not there; the message points at the place."""

    @classmethod
    def at(cls, text: str, line: int, column: int, what: str) -> CqlError:
        """The error for `what` at a line and column of the text, both counted from 1, with that line shown."""
        lines = text.splitlines() or [""]
        shown = lines[min(line, len(lines)) - 1]
        return cls(f"line {line}, column {column}: {what}\n  {shown}\n  {' ' * (column - 1)}^")


class DuplicateColumn(SpecError):
    """Two output columns would have the same name."""


class UnknownPolicy(SpecError):
    """No policy has this name."""


class MemoryTooSmall(SpecError):
    """The memory cannot hold even what the join needs before its first resident."""


class MemoryFull(WindrowError):
    """The memory is full and the query says `on_full="fail"`."""


class KeyTypeError(WindrowError, TypeError):
    """A join column has a type that cannot be compared, or not with the type on the other side."""


class TimeError(WindrowError, ValueError):
    """An event time is missing, or of a type that is no time."""


class SnapshotError(WindrowError):
    """A snapshot cannot be restored: damaged, from another query, or from an unknown version."""

    @classmethod
    def impossible(cls, what: str) -> SnapshotError:
        """The error for a snapshot whose checksum fits, and in which `what` is as no engine is."""
        return cls(
            f"the snapshot is whole, but holds a state that no engine has: {what}; it was forged, or written by a "
            "defective windrow: restore an older snapshot, or start anew"
        )


class InputError(WindrowError):
    """A file or a value that windrow was given cannot be read."""


class MissingDependency(WindrowError, ImportError):
    """An optional package is needed and not installed."""

    @classmethod
    def of(cls, package: str, purpose: str) -> MissingDependency:
        """The error for `package`, which `purpose` needs."""
        return cls(f"{purpose} needs the package {package}: install it with pip install {package}")


def alternatives(name: str, choices: Iterable[str], noun: str) -> str:
    """The end of an "unknown name" message: the nearest choice, then all of them (at most twenty)."""
    known = list(choices)
    folded = {choice.lower(): choice for choice in known}
    near = get_close_matches(name.lower(), folded, n=1)
    guess = f"; did you mean {folded[near[0]]!r}?" if near else "."
    shown = ", ".join(known[:20]) + (f" and {len(known) - 20} more" if len(known) > 20 else "")
    return f"{guess} Known {noun}: {shown or 'none'}"
