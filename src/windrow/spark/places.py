"""Places: where an archive is, in whatever spelling Spark's users write it; one folder for driver, workers and repair.

All reading and writing of archives is pyarrow's, so what Hadoop spells otherwise is translated, and Spark itself never
gets to see the name:

    s3://, s3a://, s3n://bucket/path          Amazon S3 and what speaks like it
    gs://bucket/path                          Google Cloud Storage
    abfs://, abfss://container@account.dfs.core.windows.net/path    Azure
    hdfs://, viewfs://                        Hadoop, where libhdfs is installed
    file:/path, file:///path, path            the machine's own disk; a relative path is the driver's
"""

import os
import re
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyarrow import fs

from windrow.errors import InputError, SpecError

SCHEMES = {
    "s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "gcs": "gs", "abfs": "abfs", "abfss": "abfss",
    "hdfs": "hdfs", "viewfs": "viewfs",
}  # fmt: skip
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(.*)", re.DOTALL)  # one letter alone is a drive


def place_of(archive: Any) -> str:
    """The one spelling of an archive's folder: a whole path, or an address that pyarrow opens."""
    if not isinstance(archive, (str, os.PathLike)) or not os.fspath(archive):
        raise SpecError(f"archive must be the path or address of a folder, got {archive!r}")
    text = os.fspath(archive)
    found = _SCHEME.fullmatch(text)
    if found is None:
        return os.path.abspath(text)
    scheme, rest = found[1].lower(), found[2]
    if scheme == "file":
        return _local(text, rest)
    if scheme not in SCHEMES or not rest.startswith("//"):
        raise InputError(
            f"the archive {text!r} cannot be opened: windrow knows file:, {', '.join(f'{s}://' for s in SCHEMES)} and "
            "plain paths; give one of these, or the path at which every machine sees that folder"
        )
    return f"{SCHEMES[scheme]}:{rest.rstrip('/')}"


def _local(text: str, rest: str) -> str:
    """The path of a file: address, taken as it is written, as Hadoop does."""
    path = rest.removeprefix("//localhost") if rest.startswith("//localhost/") else rest
    path = path.removeprefix("//") if path.startswith("///") else path
    if not path.startswith("/") or path.startswith("//"):
        raise InputError(f"the archive {text!r} cannot be opened: write file:/path, with a whole path and no host")
    return os.path.abspath(path)


@lru_cache(maxsize=16)
def opened(place: str) -> tuple[fs.FileSystem, str]:
    """The file system of a place, and the folder on it; asked once per process, for some look for credentials."""
    if _SCHEME.fullmatch(place) is None:
        return fs.LocalFileSystem(), place
    try:
        system, root = fs.FileSystem.from_uri(place)
        return system, root.rstrip("/")
    except (pa.ArrowException, OSError) as error:
        said = " ".join(str(error).split())
        raise InputError(f"the archive {place!r} cannot be opened: {said}") from error
