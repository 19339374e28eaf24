"""Real pairs at two sites: whole rows of real streams whose joins leave most of them without partners.

Parts of one stream that lie apart in time are laid over each other. A pair is cut to its first rows, so that a run
takes seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.lab import data
from windrow.spec import Equal, Query, Stream

ROWS = 20_000


@dataclass(frozen=True)
class Pair:
    """Two streams with whole rows, their keys, their window, and how long rows are gathered."""

    left: pa.Table
    right: pa.Table
    on: tuple[str, ...]
    window: str
    interval: str
    what: str

    @property
    def tables(self) -> dict[str, pa.Table]:
        """The streams by name."""
        return {"left": self.left, "right": self.right}

    def query(self) -> Query:
        """All columns of both."""
        streams = [Stream(name, "t", self.window) for name in ("left", "right")]
        select = [(f"{n}.{c}", f"{n}_{c}") for n, t in self.tables.items() for c in t.column_names]
        return Query(streams=streams, on=[Equal(f"left.{c}", f"right.{c}") for c in self.on], select=select)


def _pair(left: pa.Table, right: pa.Table, on: tuple[str, ...], window: str, interval: str, what: str) -> Pair:
    """The rows of both that lie in the time of the first rows of the busier one."""
    left, right = left.sort_by("t"), right.sort_by("t")
    ends = [t["t"][min(ROWS, t.num_rows) - 1] for t in (left, right)]
    end = min(ends, key=lambda moment: moment.as_py())
    left, right = (t.filter(pc.less_equal(t["t"], end)) for t in (left, right))
    return Pair(left, right, on, window, interval, what)


def _split(table: pa.Table, mask: np.ndarray) -> tuple[pa.Table, pa.Table]:
    return table.filter(pa.array(mask)), table.filter(pa.array(~mask))


def _timed(table: pa.Table, time: pa.Array, *gone: str) -> pa.Table:
    kept = table.drop_columns([name for name in gone if name in table.column_names])
    return kept.add_column(0, "t", pc.cast(time, pa.timestamp("us")))


def _web(folder: Path) -> Pair:
    table = data.read(folder, "nasa_http_day", ["time", "host", "method", "url", "response", "bytes"])
    table = _timed(table, pc.multiply(table["time"], 1_000_000), "time")
    failed = pc.greater_equal(table["response"], 400).to_numpy(zero_copy_only=False)
    left, right = _split(table, failed)
    return _pair(
        left, right, ("host",), "10 seconds", "10 minutes", "web log: errors x other requests of a host within 10 s"
    )


def _planes(folder: Path) -> Pair:
    columns = ["ts", "origin", "dest", "carrier", "flight", "tailnum", "dep_delay", "arr_delay"]
    table = data.read(folder, "nyc_flights_weather", columns, "flights_2013.parquet")
    table = _timed(table, table["ts"], "ts")
    left, right = (table.filter(pc.equal(table["origin"], name)) for name in ("EWR", "JFK"))
    return _pair(
        left, right, ("tailnum",), "12 hours", "6 hours", "flights: a plane leaves Newark and JFK within 12 hours"
    )


def _fires(folder: Path) -> Pair:
    columns = ["latitude", "longitude", "brightness", "scan", "track", "acq_date", "acq_time", "satellite"]
    columns += ["confidence", "bright_t31", "frp", "daynight"]
    table = data.read(folder, "firms_modis", columns, "*7d.parquet")
    day = pc.cast(pc.strptime(table["acq_date"], "%Y-%m-%d", "us"), pa.int64())
    clock = table["acq_time"]
    minutes = pc.add(
        pc.multiply(pc.divide(clock, 100), 60), pc.subtract(clock, pc.multiply(pc.divide(clock, 100), 100))
    )
    table = _timed(table, pc.add(day, pc.multiply(minutes, 60_000_000)), "acq_date", "acq_time")
    for axis in ("latitude", "longitude"):
        cell = np.floor(table[axis].to_numpy() * 20).astype(np.int32)
        table = table.append_column(f"{axis}_cell", pa.array(cell))
    left, right = _split(table, pc.equal(table["satellite"], "T").to_numpy(zero_copy_only=False))
    keys = ("latitude_cell", "longitude_cell")
    return _pair(left, right, keys, "6 hours", "1 hour", "fires: two satellites on 0.05-degree cells within 6 hours")


def _baskets(folder: Path) -> Pair:
    columns = ["ts", "invoice", "stock_code", "quantity", "price", "customer", "country"]
    table = data.read(folder, "online_retail", columns).filter(pc.field("customer").is_valid())
    first = pc.less(table["ts"], pa.scalar(np.datetime64("2010-12-01T00:00:00", "us"))).to_numpy(zero_copy_only=False)
    left, right = _split(table, first)
    year = 365 * 86_400_000_000
    shifted = pc.subtract(pc.cast(right["ts"], pa.int64()), year)
    left, right = _timed(left, left["ts"], "ts"), _timed(right, shifted, "ts")
    keys = ("customer", "stock_code")
    return _pair(left, right, keys, "7 days", "6 hours", "invoices: a customer's article in both years within 7 days")


def _routes(folder: Path) -> Pair:
    table = data.read(folder, "us_flights_3m", ["ts", "delay", "distance", "origin", "destination"])
    january = pc.equal(pc.month(table["ts"]), 1).to_numpy(zero_copy_only=False)
    left, right = _split(table, january)
    month = 31 * 86_400_000_000
    shifted = pc.subtract(pc.cast(right["ts"], pa.int64()), month)
    left, right = _timed(left, left["ts"], "ts"), _timed(right, shifted, "ts")
    keys = ("origin", "destination")
    return _pair(
        left, right, keys, "5 minutes", "30 minutes", "flights: a route in January and February within 5 minutes"
    )


def _stations(folder: Path) -> Pair:
    columns = ["ts", "station", "dewp", "temp", "pres", "wd", "WSPM", "pm25"]
    table = data.read(folder, "beijing_air_dewpoint", columns)
    table = _timed(table, table["ts"], "ts")
    station = table["station"].cast(pa.string())
    names = pc.unique(station).to_pylist()
    left, right = (table.filter(pc.equal(station, name)) for name in names[:2])
    keys = ("dewp", "pres")
    return _pair(
        left, right, keys, "3 hours", "5 days", "weather: dewpoint and pressure alike at two stations within 3 hours"
    )


PAIRS: dict[str, Callable[[Path], Pair]] = {
    "web": _web, "planes": _planes, "fires": _fires, "baskets": _baskets, "routes": _routes, "stations": _stations,
}  # fmt: skip


@cache
def pair(folder: Path, name: str) -> Pair:
    """A pair by name."""
    return PAIRS[name](folder)
