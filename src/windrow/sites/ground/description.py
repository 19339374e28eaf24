"""Description: one file that says which streams there are, where, how sites reach each other, and by which plan.

Every site has a copy of the file, in TOML or JSON:

    hold = "256 MB"                                    what a site may hold for others that are away or behind

    [query]                                            as windrow.Query takes it
    on = "user"

    [streams.clicks]                                   in the order that breaks ties
    site = "paris"
    time = "ts"
    window = "10 minutes"
    lateness = "5 s"
    schema = { ts = "timestamp[us]", user = "int64" }  or what its files say
    files = "clicks"                                   or none: rows are handed over, as by Spark

    [sites.paris]
    address = "10.0.0.1:7015"
    folder = "state/paris"                             state and results; beside this file unless it is absolute

    [links."paris - tokyo"]                            for planning and simulation
    latency = "120 ms"

    [plan]                                             or plan = "plan.json", as `windrow sites plan` writes it
    interval = "1 s"
    sequences = { clicks = [["orders", "SM-D1"]], orders = [["clicks", "SP-S"]] }

    [security]                                         where sites listen beyond loopback
    authority = "ca.pem"
"""

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from windrow.engine.intake import plain_schema
from windrow.errors import InputError, SpecError, alternatives
from windrow.files import open_table
from windrow.record import number
from windrow.sites.bound import Bound
from windrow.sites.ground.trust import Trust, read_token
from windrow.sites.links import Links
from windrow.sites.messages import VERSION
from windrow.sites.network import Network
from windrow.sites.plans import Plan
from windrow.spec import Query, Stream, Window
from windrow.spec.bytesize import parse_bytes
from windrow.spec.durations import Duration, parse_duration

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9_.-]+):(\d{1,5})")
_TIMESTAMP = re.compile(r"timestamp\[(s|ms|us|ns),\s*(?:tz=)?([^\]]+)\]")
_DECIMAL = re.compile(r"decimal128\((\d+),\s*(\d+)\)")
_QUERY = ("on", "select", "patience")
_STREAM = ("time", "window", "lateness", "where")
_FEED = ("files", "follow", "pace", "starts", "idle")
_SITE = ("address", "listen", "folder", "certificate", "key")
_TOP = ("hold", "query", "streams", "sites", "links", "plan", "security", "snapshot")


@dataclass(frozen=True)
class Feed:
    """Where the rows of a stream come from: files, or whoever hands them over."""

    files: Path | None = None
    follow: bool = False  # whether more files may come
    pace: float | None = None  # seconds of event time in a second; None: as fast as they are read
    starts: float | None = None  # when interval 0 begins, in seconds since 1970: for a pace
    idle: Duration | None = None  # a stream that has been silent for so long goes on by the wall clock


@dataclass(frozen=True)
class Station:
    """A site as others see it."""

    name: str
    address: str
    folder: Path
    listen: str
    certificate: Path | None = None
    key: Path | None = None

    @property
    def ends(self) -> tuple[str, int]:
        """Host and port to listen on."""
        return split(self.listen)


@dataclass(frozen=True)
class Description:
    """What the file says."""

    path: Path
    query: Query
    places: Mapping[str, str]  # the site of each stream
    feeds: Mapping[str, Feed]
    stations: Mapping[str, Station]
    links: Links
    hold: int
    snapshot_bytes: int  # how many bytes may come in before state is written anew
    _plan: Any = None
    _schemas: Mapping[str, Any] = field(default_factory=dict)
    _security: Mapping[str, Any] = field(default_factory=dict)

    def station(self, name: str) -> Station:
        """The site of a name."""
        if name not in self.stations:
            raise SpecError(f"{self.path} has no site {name!r}{alternatives(name, self.stations, 'sites')}")
        return self.stations[name]

    @cached_property
    def plan(self) -> Plan:
        """The plan; the same at every site."""
        given = {"query": self.query, "sites": dict(self.places), **self._planned[0]}
        return Plan.from_dict(given | {"origin": self._origin(given)})

    def _origin(self, given: Mapping[str, Any]) -> int:
        """Where interval 0 begins: a number in units of the times, or a time of the calendar (without a zone, UTC)."""
        origin = given.get("origin", 0)
        if isinstance(origin, str):
            origin = _moment(origin, self.path)
        if not isinstance(origin, datetime):
            return int(origin)
        unit = Bound(self.query, self.schemas, parse_duration(given.get("interval", "100 ms"), "the interval")).unit
        if unit not in _PER_SECOND:
            raise SpecError(f"{self.path}: plan.origin is a time of the calendar, and the streams' times are numbers")
        since = origin.replace(tzinfo=origin.tzinfo or UTC) - datetime(1970, 1, 1, tzinfo=UTC)
        return since // timedelta(microseconds=1) * _PER_SECOND[unit] // 10**6

    @property
    def planned_bytes(self) -> dict[str, float]:
        """What the plan expects to go over each link in a second, as {"A -> B": bytes}; empty if nobody has counted."""
        return self._planned[1]

    @cached_property
    def _planned(self) -> tuple[dict[str, Any], dict[str, float]]:
        if self._plan is None:
            raise SpecError(f"{self.path} has no plan: write one with windrow sites plan {self.path} -o plan.json")
        if isinstance(self._plan, Mapping):
            return dict(self._plan), {}
        found = _loaded(self.path.parent / str(self._plan))
        expected = {str(ends): float(rate) for ends, rate in found.pop("bytes_per_second", {}).items()}
        return {name: value for name, value in found.items() if name not in ("query", "sites", "version")}, expected

    @cached_property
    def schemas(self) -> dict[str, pa.Schema]:
        """The columns of each stream: as the file says, or as its files say where those are at hand."""
        return {name: self._schema(name) for name in self.query.names}

    def _schema(self, stream: str) -> pa.Schema:
        if given := self._schemas.get(stream):
            return pa.schema([pa.field(column, data_type(kind, stream)) for column, kind in given.items()])
        files = self.feeds[stream].files
        if files is None or not files.exists():
            raise SpecError(
                f"stream {stream!r} has no schema, and no files at this place: every site must know the columns, as in "
                f'schema = {{ ts = "timestamp[us]", user = "int64" }}'
            )
        return plain_schema(open_table(files).schema)

    @cached_property
    def network(self) -> Network:
        """The steps and channels of the plan."""
        return Network(self.plan, self.schemas)

    @cached_property
    def id(self) -> str:
        """A digest of all that sites must agree on: plan, columns, form of messages."""
        columns = [[n, [[f.name, str(f.type)] for f in self.schemas[n]]] for n in self.query.names]
        return hashlib.sha256(json.dumps([VERSION, self.plan.id, columns]).encode()).hexdigest()[:16]

    def trust(self, name: str | None = None) -> Trust:
        """Who may talk to a site, and what it shows; without a name, what anybody at this place can show."""
        here, given = self.path.parent, self._security
        names = [name] if name else [s.name for s in self.stations.values() if s.key and s.key.exists()]
        station = self.station(names[0]) if names else None
        token, authority = given.get("token"), given.get("authority")
        return Trust(
            authority=None if authority is None else here / str(authority),
            certificate=station.certificate if station else None,
            key=station.key if station else None,
            token=None if token is None else read_token(here / str(token)),
            mutual=bool(given.get("mutual", True)),
        )


def describe(path: str | Path) -> Description:
    """Read a description, or say what is wrong with it."""
    path = Path(path)
    data = _loaded(path)
    _known(data, _TOP, str(path))
    streams, sites = _table(data, "streams", path), _table(data, "sites", path)
    for name, entry in streams.items():
        _known(entry, ("site", "schema", *_STREAM, *_FEED), f"{path}: streams.{name}")
        if "site" not in entry:
            raise SpecError(f"{path}: streams.{name} does not say at which site it is")
    query = _table(data, "query", path)
    _known(query, _QUERY, f"{path}: query")
    made = Query(streams=[_stream(name, entry) for name, entry in streams.items()], **query)
    security = data.get("security", {})
    _known(security, ("authority", "token", "mutual"), f"{path}: security")
    stations = {name: _station(name, entry, path) for name, entry in sites.items()}
    places = {name: str(entry["site"]) for name, entry in streams.items()}
    for name, site in places.items():
        if site not in stations:
            raise SpecError(f"{path}: streams.{name} is at {site!r}{alternatives(site, stations, 'sites')}")
    return Description(
        path=path,
        query=made,
        places=places,
        feeds={name: _feed(name, entry, path.parent) for name, entry in streams.items()},
        stations=stations,
        links=Links(data.get("links")),
        hold=parse_bytes(data.get("hold", "256 MB")),
        snapshot_bytes=parse_bytes(data.get("snapshot", "32 MB")),
        _plan=data.get("plan"),
        _schemas={name: entry["schema"] for name, entry in streams.items() if "schema" in entry},
        _security=security,
    )


def _loaded(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        found = json.loads(text) if path.suffix.lower() == ".json" else tomllib.loads(text)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: {error}") from None
    if not isinstance(found, dict):
        raise InputError(f"{path}: expected named values")
    return found


def _moment(text: str, path: Path) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise SpecError(f"{path}: plan.origin {text!r} is no time, such as 2024-05-31T12:00") from None


def _table(data: Mapping[str, Any], name: str, path: Path) -> dict[str, Any]:
    found = data.get(name)
    if not isinstance(found, dict) or not found:
        raise SpecError(f"{path} has no table [{name}]")
    return found


def _known(entry: Any, names: tuple[str, ...], where: str) -> None:
    if not isinstance(entry, Mapping):
        raise SpecError(f"{where}: expected named values, got {entry!r}")
    for name in entry:
        if name not in names:
            raise SpecError(f"{where} has no setting {name!r}{alternatives(str(name), names, 'settings')}")


def _stream(name: str, entry: Mapping[str, Any]) -> Stream:
    given = {key: entry[key] for key in _STREAM if key in entry}
    if "time" not in given:
        raise SpecError(f"streams.{name} has no time column: sites share no order but that of event times")
    if isinstance(given.get("window"), Mapping):
        given["window"] = Window.from_dict(given["window"])
    return Stream(name, **given)


def _station(name: str, entry: Mapping[str, Any], path: Path) -> Station:
    _known(entry, _SITE, f"{path}: sites.{name}")
    if not _NAME.fullmatch(name):
        raise SpecError(f"{path}: a site's name has letters, digits, dots, dashes and underscores, got {name!r}")
    address = str(entry.get("address", ""))
    split(address)
    files = {key: path.parent / str(entry[key]) for key in ("certificate", "key") if key in entry}
    folder = path.parent / str(entry.get("folder", f"{path.stem}.run/{name}"))
    return Station(name, address, folder, str(entry.get("listen", address)), **files)


def _feed(name: str, entry: Mapping[str, Any], here: Path) -> Feed:
    pace, starts, idle = (entry.get(key) for key in ("pace", "starts", "idle"))
    return Feed(
        files=here / str(entry["files"]) if "files" in entry else None,
        follow=bool(entry.get("follow", False)),
        pace=None if pace is None else float(number(pace, f"streams.{name}.pace")) or None,
        starts=None if starts is None else float(number(starts, f"streams.{name}.starts")),
        idle=None if idle is None else parse_duration(idle, f"streams.{name}.idle"),
    )


def data_type(kind: Any, stream: str) -> pa.DataType:
    """The Arrow type that a text names: int64, string, timestamp[us], timestamp[us, tz=UTC], decimal128(9, 2)."""
    text = str(kind)
    if found := _TIMESTAMP.fullmatch(text):
        return pa.timestamp(found[1], found[2].strip())
    if found := _DECIMAL.fullmatch(text):
        return pa.decimal128(int(found[1]), int(found[2]))
    try:
        return pa.type_for_alias(text)
    except (ValueError, TypeError):
        raise SpecError(f"streams.{stream}.schema: {text!r} names no Arrow type; for example: 'int64'") from None


def split(address: str) -> tuple[str, int]:
    """Host and port of an address."""
    found = _ADDRESS.fullmatch(address)
    if found is None or int(found[2]) > 65535:
        raise SpecError(f"an address is a host and a port, as in '127.0.0.1:7015', got {address!r}")
    return found[1].strip("[]"), int(found[2])
