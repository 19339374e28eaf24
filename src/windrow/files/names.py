"""What a file's name says about its format, and how an unreadable file is reported."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import pyarrow as pa

from windrow.errors import DuplicateColumn, InputError

AnyPath = str | PathLike[str]

_FORMATS = {
    ".parquet": "Parquet",
    ".pq": "Parquet",
    ".csv": "CSV",
    ".tsv": "TSV",
    ".jsonl": "JSON lines",
    ".ndjson": "JSON lines",
    ".json": "JSON lines",
}


@dataclass(frozen=True)
class Format:
    """How the content of a file is written down: the kind, whether it is compressed with gzip, and a CSV's own mark."""

    kind: str
    gzip: bool = False
    separator: str = ","

    @property
    def delimiter(self) -> str:
        """What stands between two columns of a CSV or TSV file."""
        return "\t" if self.kind == "TSV" else self.separator


def format_of(path: Path) -> Format:
    """The format that the name of a file promises."""
    name = path.name.lower()
    gzip = name.endswith(".gz")
    kind = _FORMATS.get(Path(name.removesuffix(".gz")).suffix)
    if kind is None or (gzip and kind == "Parquet"):
        raise InputError(
            f"{path}: the name does not say which format this is; "
            f"known endings are {', '.join(_FORMATS)}, and .gz after those of text formats"
        )
    return Format(kind, gzip)


@contextmanager
def reported(path: Path, doing: str) -> Iterator[None]:
    """Turn what the system or Arrow says about a file into one line that names it."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file") from None
    except PermissionError:
        raise InputError(f"{path}: permission denied; {doing} is not allowed") from None
    except (OSError, EOFError, UnicodeError, pa.ArrowException) as error:
        raise InputError(f"{path}: {doing} failed: {_one_line(error)}") from error


def _one_line(error: BaseException) -> str:
    """What went wrong, without the system's call numbers and with advice where a guessed type did not fit."""
    text = str(getattr(error, "strerror", None) or error).strip() or type(error).__name__
    line = text.splitlines()[0].rstrip(". ")
    if "conversion error" in line or "Failed to convert" in line or "changed from" in line:
        line += " (types are guessed from the first rows: give this column's type, or correct the value)"
    return line


def distinct(names: list[str], path: Path) -> None:
    """Refuse a file in which two columns have the same name."""
    for i, name in enumerate(names):
        if name in names[:i]:
            raise DuplicateColumn(f"{path}: two columns are named {name!r}; rename one")
