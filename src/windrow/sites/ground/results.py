"""Results: the matches of a site as Parquet files, one for each sequence and interval that has any, written whole.

    results/<sequence>/<thousand>/<interval>.parquet

The name says which matches are in a file, so what is written again after a crash replaces itself.
"""

import os
import re
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from windrow.errors import InputError, MissingDependency
from windrow.sites.ground.description import Description, describe
from windrow.sites.ground.keeping import sync_folder, writing
from windrow.sites.network import Deliver

FOLDER = "results"


class Results:
    """Where the matches of one site go."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / FOLDER
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        self._fresh: list[Path] = []
        self.rows = self.files = 0

    def write(self, channel: str, interval: int, table: pa.Table) -> None:
        """Write the matches of an interval, whole or not at all."""
        path = self.folder / named(channel) / f"{interval // 1000:06}" / f"{interval:09}.parquet"
        beside = path.with_name(f".{path.name}.part")
        with writing(self.folder):
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table, beside, compression="zstd")
            os.replace(beside, path)
        self._fresh.append(path)
        self.rows += table.num_rows
        self.files += 1

    def settle(self) -> None:
        """See to it that what was written outlives the machine, before what it was made of is forgotten."""
        with writing(self.folder):
            for path in self._fresh:
                handle = os.open(path, os.O_RDONLY)
                os.fsync(handle)
                os.close(handle)
            inside = {folder for path in self._fresh for folder in path.parents if folder.is_relative_to(self.folder)}
            for folder in inside:  # each may be new in the one before
                sync_folder(folder)
        self._fresh.clear()


def named(channel: str) -> str:
    """The folder of a channel: its letters, and a few digits for what is left out."""
    plain = re.sub(r"[^0-9A-Za-z]+", "_", channel).strip("_")
    return f"{plain}-{zlib.crc32(channel.encode()):08x}"


def results(where: Any, *, spark: Any = None) -> Any:
    """The matches that sites have written so far, as one Arrow table, or as a DataFrame of a Spark session.

    `where` is the description of the sites, the folder of a site, or a list of these folders, copied here from wherever
    they were written. A file is there whole or not at all, so this may be called while sites are at work.
    """
    folders, schema = _folders(where)
    files = sorted(str(path) for folder in folders for path in folder.rglob("*.parquet") if path.name[0] != ".")
    if spark is not None:
        return _frame(spark, files, schema)
    if not files:
        if schema is None:
            raise InputError(f"{', '.join(map(str, folders)) or where}: there are no results here yet")
        return pa.Table.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)
    return pa.concat_tables([pq.ParquetFile(path).read() for path in files])


def _folders(where: Any) -> tuple[list[Path], pa.Schema | None]:
    if isinstance(where, Description) or (isinstance(where, str | Path) and Path(where).is_file()):
        found = where if isinstance(where, Description) else describe(where)
        schema = next(Deliver.schemas(s.edge)[0] for s in found.network.steps if s.kind is Deliver)
        return [station.folder / FOLDER for station in found.stations.values()], schema
    given: Iterable[Any] = [where] if isinstance(where, str | Path) else where
    folders = [Path(one) for one in given]
    return [one / FOLDER if (one / FOLDER).is_dir() else one for one in folders], None


def _frame(spark: Any, files: list[str], schema: pa.Schema | None) -> Any:
    if files:
        return spark.read.parquet(*(os.path.abspath(path) for path in files))
    if schema is None:
        raise InputError("there are no results here yet")
    try:
        from pyspark.sql.pandas.types import from_arrow_schema
    except ImportError:
        raise MissingDependency.of("pyspark", "a DataFrame of results") from None
    return spark.createDataFrame([], from_arrow_schema(schema))
