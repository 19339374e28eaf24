"""References: texts "stream.column" that name one column of one stream."""

from __future__ import annotations

from functools import lru_cache

from windrow.errors import SpecError


def split_reference(reference: object, what: str = "a column reference") -> tuple[str, str]:
    """The stream and the column of `reference`, split at its first dot: column names may hold dots.

    >>> split_reference("orders.user.id")
    ('orders', 'user.id')
    """
    found = _split(reference) if isinstance(reference, str) else None
    if found is None:
        raise SpecError(f"{what} must be a text 'stream.column', got {reference!r}")
    return found


@lru_cache(maxsize=1024)
def _split(reference: str) -> tuple[str, str] | None:
    stream, _, column = reference.partition(".")
    return (stream, column) if is_stream_name(stream) and column.strip() else None


def is_stream_name(name: object) -> bool:
    """Whether `name` can name a stream: letters, digits and underscores, not beginning with a digit."""
    return isinstance(name, str) and name.isidentifier()
