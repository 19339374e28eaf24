"""Byte sizes: "64 MB" to a number of bytes and back."""

from __future__ import annotations

import re
from fractions import Fraction

from windrow.errors import SpecError
from windrow.record import INT64_MAX, whole

_DECIMAL = {"kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_BINARY = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_UNITS = {name.lower(): size for name, size in {"B": 1, "bytes": 1, "byte": 1, **_DECIMAL, **_BINARY}.items()}
_SIZE = re.compile(r"\s*(\d[\d_]{0,40}(?:\.\d{1,40})?|\.\d{1,40})\s*([a-zA-Z]+)\s*")


def parse_bytes(value: str | int) -> int:
    """The number of bytes in a text such as "64 MB" (decimal) or "64 MiB" (binary), rounded down.

    >>> parse_bytes("64 MB"), parse_bytes("1.5 KiB")
    (64000000, 1536)
    """
    if not isinstance(value, str):
        return whole(value, "a size in bytes")
    match = _SIZE.fullmatch(value)
    unit = _UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise SpecError(
            f"cannot read the size {value!r}; write a number and a unit, such as '64 MB' "
            "(B, kB, MB, GB, TB, or KiB, MiB, GiB, TiB)"
        )
    size = int(Fraction(match[1].replace("_", "")) * unit)
    if size > INT64_MAX:
        raise SpecError(f"the size {value!r} is too large")
    return size


def format_bytes(size: int) -> str:
    """A size for people, in decimal units and about three digits.

    >>> format_bytes(64_000_000), format_bytes(1_536)
    ('64 MB', '1.54 kB')
    """
    name, unit = next(((n, u) for n, u in reversed(_DECIMAL.items()) if size >= u), ("B", 1))
    amount = size / unit
    return f"{amount:.0f} {name}" if amount >= 100 else f"{amount:.3g} {name}"
