"""Real pairs: the joins of real streams on which locality is looked for; without a data directory, what stands in.

Streams that are a year or a month apart are laid beside each other row by row; those of one time keep their times.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.lab import data
from windrow.lab.data import Streams, paired
from windrow.lab.generators import locality_stream

GENERATED = "generated"


@cache
def pairs(folder: Path | None) -> dict[str, Streams]:
    """The pairs by name."""
    if folder is not None:
        return {name: make(folder) for name, make in _SETS.items()}
    found = data.weather(None)
    if not found.source.startswith("generated"):
        return {"flights": found}
    left, right = (locality_stream(100_000, 500, seed=seed) for seed in (1, 2))
    return {GENERATED: Streams(left, right, "generated streams with locality, 100,000 rows each on 500 keys")}


@cache
def by_rows(folder: Path | None) -> dict[str, Streams]:
    """These pairs and some more, laid beside each other row by row, for windows in rows."""
    found = dict(pairs(folder))
    if folder is not None:
        found |= {name: make(folder) for name, make in _MORE.items()}
    return {name: _in_steps(one) for name, one in found.items()}


def _in_steps(one: Streams) -> Streams:
    if one.left.num_rows == one.right.num_rows and one.left["t"][-1] == one.right["t"][-1]:
        return one
    return paired(one.left["k"].to_numpy(), one.right["k"].to_numpy(), one.source.partition(",")[0])


def stations(folder: Path, count: int) -> list[pa.Table]:
    """The dewpoint at several stations in Beijing hour by hour: streams of one time, for joins of more than two."""
    table = data.read(folder, "beijing_air_dewpoint", ["ts", "station", "dewp"]).sort_by("ts")
    place, first = _codes(table["station"]), table["ts"][0].as_py()
    hours = (table["ts"].to_numpy() - np.datetime64(first)) // np.timedelta64(1, "h")
    values = table["dewp"].to_numpy() * 10
    found = []
    for station in range(count):
        here = (place == station) & np.isfinite(values)
        found.append(pa.table({"t": hours[here].astype(np.int64), "k": np.rint(values[here]).astype(np.int64)}))
    return found


def _dewpoint(folder: Path) -> Streams:
    table = data.read(folder, "beijing_air_dewpoint", ["ts", "dewp"]).sort_by("ts").drop_null()
    year, values = pc.year(table["ts"]).to_numpy(), np.rint(table["dewp"].to_numpy() * 10)
    return paired(values[year == 2014], values[year == 2015], "dewpoint at 12 stations in Beijing, 2014 x 2015")


def _cities(folder: Path) -> Streams:
    columns = ["month", "day", "hour"]
    table = data.read(folder, "pnw_weather", ["origin", "dewp", *columns]).drop_null()
    table = table.sort_by([(column, "ascending") for column in columns])
    seattle, values = pc.equal(table["origin"], "SEA").to_numpy(), np.rint(table["dewp"].to_numpy() * 100)
    return paired(values[seattle], values[~seattle], "hourly dewpoint of 2014, Seattle x Portland")


def _web(folder: Path) -> Streams:
    table = data.read(folder, "nasa_http_day", ["time", "host", "url"])
    picture = pc.match_substring_regex(table["url"], r"\.(gif|jpg|jpeg|xbm|bmp)$").to_numpy(zero_copy_only=False)
    keys, times = _codes(table["host"]), table["time"].to_numpy()
    left, right = (pa.table({"t": times[side], "k": keys[side]}) for side in (picture, ~picture))
    return Streams(left, right, f"a web server's log of one day, images x pages on {int(keys.max()) + 1:,} hosts")


def _routes(folder: Path) -> Streams:
    return _flights(folder, ["origin", "destination"], "flights of 2001, January x February on the route")


def _origins(folder: Path) -> Streams:
    return _flights(folder, ["origin"], "flights of 2001, January x February on the origin")


def _flights(folder: Path, on: list[str], source: str) -> Streams:
    table = data.read(folder, "us_flights_3m", ["ts", *on]).sort_by("ts")
    keys = np.zeros(table.num_rows, np.int64)
    for column in on:
        keys = keys * 1_000 + _codes(table[column])
    january = pc.month(table["ts"]).to_numpy() == 1
    return paired(keys[january], keys[~january], source)


def _retail(folder: Path) -> Streams:
    table = data.read(folder, "online_retail", ["ts", "stock_code"]).sort_by("ts")
    keys, half = _codes(table["stock_code"]), table.num_rows // 2
    return paired(keys[:half], keys[half:], "invoice lines, first year x second year on the article")


def _customers(folder: Path) -> Streams:
    table = data.read(folder, "online_retail", ["ts", "customer"]).drop_null().sort_by("ts")
    keys, half = table["customer"].to_numpy().astype(np.int64), table.num_rows // 2
    return paired(keys[:half], keys[half:], "invoice lines, first year x second year on the customer")


def _fires(folder: Path, degrees: int) -> Streams:
    columns = ["latitude", "longitude", "acq_date", "acq_time", "satellite"]
    table = data.read(folder, "firms_modis", columns, "*7d.parquet")
    table = table.sort_by([("acq_date", "ascending"), ("acq_time", "ascending")])
    place = [np.floor(table[axis].to_numpy() / degrees).astype(np.int64) for axis in ("latitude", "longitude")]
    terra = pc.starts_with(table["satellite"].cast("string"), "T").to_numpy()
    cell = place[0] * 1_000 + place[1]
    return paired(cell[terra], cell[~terra], f"fires seen by two satellites on {degrees}-degree cells")


def _airports(folder: Path) -> Streams:
    columns = ["origin", "dewp", "time_hour"]
    table = data.read(folder, "nyc_flights_weather", columns, "weather.parquet").drop_null().sort_by("time_hour")
    values, origin = np.rint(table["dewp"].to_numpy() * 100), table["origin"].cast("string")
    left, right = (pc.equal(origin, name).to_numpy() for name in ("EWR", "JFK"))
    return paired(values[left], values[right], "hourly dewpoint of 2013, Newark x JFK")


def _codes(column: Any) -> np.ndarray:
    if not pa.types.is_dictionary(column.type):
        column = pc.dictionary_encode(column)
    return np.asarray(column.unify_dictionaries().combine_chunks().indices.to_numpy(), dtype=np.int64)


_SETS = {
    "dewpoint": _dewpoint, "cities": _cities, "web": _web, "marine": lambda folder: data.weather(folder),
    "routes": _routes, "origins": _origins, "retail": _retail,
}  # fmt: skip
_MORE = {
    "airports": _airports, "customers": _customers,
    "fires, 1 degree": lambda folder: _fires(folder, 1), "fires, 10 degrees": lambda folder: _fires(folder, 10),
}  # fmt: skip
