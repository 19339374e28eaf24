"""Description: what a setting says beyond its query (sites/setting.py): addresses, plan, columns, where rows come from.

Every site has a copy of the file. Beside what planning needs it has

    plan = "plan.json"                                 as `windrow sites plan -o` writes it, or as a table:
                                                       { sequences = { clicks = [["orders", "SM-D1"]], … } }
    hold = "256 MB"                                    what a site may hold for others that are away or behind
    snapshot = "32 MB"                                 how much may come in before state is written anew
    memory = "64 MB"                                   what each site may hold of windows; also in [sites.NAME]
    policy = "prob"                                    by which windows that are full shed
    replan = { every = "1 minute", gain = 0.15 }       look at the plan again, and replace it (sites/council.py)

    [streams.clicks]
    file = "clicks"                                    a file, or a folder; or none: rows are handed over, as by Spark
    schema = { ts = "timestamp[us]", user = "int64" }  or what its files say, where those are at hand
    follow = true                                      more files may come
    pace = 1                                           rows come when their time does
    idle = "5 s"                                       a stream that is silent for so long goes on by the wall clock

    [sites.edge]
    address = "10.0.0.1:7015"                          where others reach it; it listens there, or on listen = "…"
    folder = "state/edge"                              state and results; beside this file unless it is absolute
    certificate = "edge.pem"
    key = "edge.key"

    [security]                                         where sites listen beyond loopback
    authority = "ca.pem"
    token = "token.txt"
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow as pa

from windrow.engine.intake import plain_schema
from windrow.errors import SpecError, alternatives
from windrow.files import open_table
from windrow.record import number
from windrow.sites.bound import check_query
from windrow.sites.budget import Budget
from windrow.sites.course import Course
from windrow.sites.ground.trust import Trust, read_token
from windrow.sites.messages import VERSION
from windrow.sites.network import Network
from windrow.sites.plans import Plan
from windrow.sites.setting import Setting, file_name, origin_of, read_plan, read_setting
from windrow.spec import Query
from windrow.spec.bytesize import parse_bytes
from windrow.spec.durations import Duration, parse_duration

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9_.-]+):(\d{1,5})")
_TIMESTAMP = re.compile(r"timestamp\[(s|ms|us|ns),\s*(?:tz=)?([^\]]+)\]")
_DECIMAL = re.compile(r"decimal128\((\d+),\s*(\d+)\)")
_SITE = ("address", "listen", "folder", "certificate", "key", "memory")
_PLAN = ("sequences", "tree", "dense_counts")


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
    setting: Setting
    feeds: Mapping[str, Feed]
    stations: Mapping[str, Station]
    hold: int
    snapshot_bytes: int  # how many bytes may come in before state is written anew

    @property
    def query(self) -> Query:
        """What is joined."""
        return self.setting.query

    @property
    def places(self) -> dict[str, str]:
        """The site of each stream."""
        return self.setting.sites

    def station(self, name: str) -> Station:
        """The site of a name."""
        if name not in self.stations:
            raise SpecError(f"{self.path} has no site {name!r}{alternatives(name, self.stations, 'sites')}")
        return self.stations[name]

    @property
    def plan(self) -> Plan:
        """The plan; the same at every site."""
        return self._planned[0]

    @property
    def planned_bytes(self) -> dict[str, float]:
        """What the plan expects to go over each link in a second, as {"A -> B": bytes}; empty if nobody has counted."""
        return self._planned[1]

    @cached_property
    def _planned(self) -> tuple[Plan, dict[str, float]]:
        given = self.setting.data.get("plan")
        if given is None:
            make = f"write one with windrow sites plan {self.path} -o plan.json"
            raise SpecError(f"{self.path} has no plan: {make}, and say plan = 'plan.json'")
        if isinstance(given, str):
            file_name(given, f"{self.path}: plan")
            plan, expected = read_plan(self.path.parent / given)
            check_query(plan.query)
            if plan.query != self.query or dict(plan.sites) != self.places:
                raise SpecError(f"{given} is a plan for other streams or windows than {self.path} has: plan anew")
            self._check_plan(plan, given)
        else:
            _known(given, _PLAN, f"{self.path}: plan")
            s = self.setting
            for order in _known(given.get("sequences", {}), None, f"{self.path}: plan.sequences").values():
                if not isinstance(order, list) or not all(isinstance(leg, list) and len(leg) == 2 for leg in order):
                    form = '[["orders", "SM-D1"], …]'
                    raise SpecError(f"{self.path}: plan.sequences: expected streams and programs, as in {form}")
            plan = Plan(s.query, s.sites, interval=s.interval, delay=s.delay, result_at=s.result_at,
                        origin=self._origin(), **given)  # fmt: skip
            expected = {}
        for place in plan.places:
            self.station(place)
        return plan, expected

    def _check_plan(self, plan: Plan, name: str) -> None:
        """Refuse a plan that was made for other intervals, or for results elsewhere, than the file says."""
        for key in ("interval", "delay", "result_at"):
            if key not in self.setting.data:
                continue
            said, planned = getattr(self.setting, key), getattr(plan, key)
            if (said if key == "result_at" else parse_duration(said, f"the {key}")) != planned:
                raise SpecError(f"{name} has {key} = {str(planned)!r}, and {self.path} says {said!r}: plan anew")

    def _origin(self) -> int:
        """Where interval 0 begins, in units of the times."""
        return origin_of(self.setting, self.schemas) or 0

    @cached_property
    def schemas(self) -> dict[str, pa.Schema]:
        """The columns of each stream: as the file says, or as its files say where those are at hand."""
        return {name: self._schema(name) for name in self.query.names}

    def _schema(self, stream: str) -> pa.Schema:
        if given := self.setting.data["streams"][stream].get("schema"):
            columns = _known(given, None, f"{self.path}: streams.{stream}.schema")
            return pa.schema([pa.field(column, data_type(kind, stream)) for column, kind in columns.items()])
        files = self.feeds[stream].files
        if files is None or not files.exists():
            lacks = "no files" if files is None else f"{files} is not"
            raise SpecError(
                f"stream {stream!r} has no schema, and {lacks} at this place: every site must know the columns, as in "
                f'schema = {{ ts = "timestamp[us]", user = "int64" }}'
            )
        return plain_schema(open_table(files).schema)

    @cached_property
    def network(self) -> Network:
        """The steps and channels of the plan."""
        return Network(self.plan, self.schemas)

    def course(self, name: str) -> Course:
        """A site at its beginning."""
        s = self.setting
        return Course(
            self.plan, self.schemas, name, replan=s.replan, links=s.links, step_seconds=s.step_seconds,
            budget=Budget.of(s.memory, s.policy),
        )  # fmt: skip

    @cached_property
    def id(self) -> str:
        """A digest of all that sites must agree on: plan, columns, form of messages, when the plan is looked at."""
        columns = [[n, [[f.name, str(f.type)] for f in self.schemas[n]]] for n in self.query.names]
        s = self.setting
        agreed = [VERSION, self.plan.id, columns, None if s.replan is None else s.replan.to_dict(), s.memory, s.policy]
        return hashlib.sha256(json.dumps(agreed).encode()).hexdigest()[:16]

    def trust(self, name: str | None = None) -> Trust:
        """Who may talk to a site, and what it shows; without a name, what anybody at this place can show."""
        here, given = self.path.parent, self.setting.data.get("security", {})
        names = [name] if name else [s.name for s in self.stations.values() if s.key and s.key.exists()]
        station = self.station(names[0]) if names else None
        token, authority = given.get("token"), given.get("authority")
        return Trust(
            authority=None if authority is None else here / authority,
            certificate=station.certificate if station else None,
            key=station.key if station else None,
            token=None if token is None else read_token(here / token),
            mutual=given.get("mutual", True),
        )


def describe(path: str | Path) -> Description:
    """Read a description, or say what is wrong with it."""
    path = Path(path)
    setting = read_setting(path)
    data = setting.data
    if "sites" not in data:
        raise SpecError(f"{path} has no [sites.NAME] with the address of each site")
    stations = {name: _station(name, entry, path) for name, entry in _known(data["sites"], None, "sites").items()}
    for one, other in combinations(stations.values(), 2):
        if one.address == other.address:
            raise SpecError(f"{path}: the sites {one.name!r} and {other.name!r} have the same address {one.address}")
    for name in setting.sites:
        if setting.query.stream(name).time is None:
            raise SpecError(f"streams.{name} has no time column: sites share no order but that of event times")
    security = _known(data.get("security", {}), ("authority", "token", "mutual"), f"{path}: security")
    for key in ("authority", "token"):
        if key in security:
            file_name(security[key], f"{path}: security.{key}")
    _truth(security.get("mutual", True), f"{path}: security.mutual")
    return Description(
        path=path,
        setting=setting,
        feeds={name: _feed(name, entry, setting.files.get(name)) for name, entry in data["streams"].items()},
        stations=stations,
        hold=_size(data.get("hold", "256 MB"), f"{path}: hold"),
        snapshot_bytes=_size(data.get("snapshot", "32 MB"), f"{path}: snapshot"),
    )


def _size(value: Any, where: str) -> int:
    try:
        return parse_bytes(value)
    except SpecError as error:
        raise SpecError(f"{where}: {error}") from None


def _truth(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise SpecError(f"{where} must be true or false, got {value!r}")
    return value


def _known(entry: Any, names: tuple[str, ...] | None, where: str) -> Mapping[str, Any]:
    if not isinstance(entry, Mapping):
        raise SpecError(f"{where}: expected names and values, got {entry!r}")
    for name in entry:
        if names is not None and name not in names:
            raise SpecError(f"{where} has no {name!r}{alternatives(str(name), names, 'names')}")
    return entry


def _station(name: str, entry: Mapping[str, Any], path: Path) -> Station:
    _known(entry, _SITE, f"{path}: sites.{name}")
    if not _NAME.fullmatch(name):
        raise SpecError(f"{path}: a site's name has letters, digits, dots, dashes and underscores, got {name!r}")
    address = str(entry.get("address", ""))
    try:
        for each in {address, str(entry.get("listen", address))}:
            split(each)
    except SpecError as error:
        raise SpecError(f"{path}: sites.{name}: {error}") from None
    for key in ("certificate", "key", "folder"):
        if key in entry:
            file_name(entry[key], f"{path}: sites.{name}.{key}")
    files = {key: path.parent / entry[key] for key in ("certificate", "key") if key in entry}
    folder = path.parent / entry.get("folder", f"{path.stem}.run/{name}")
    return Station(name, address, folder, str(entry.get("listen", address)), **files)


def _feed(name: str, entry: Mapping[str, Any], file: Path | None) -> Feed:
    pace, starts, idle = (entry.get(key) for key in ("pace", "starts", "idle"))
    return Feed(
        files=file,
        follow=_truth(entry.get("follow", False), f"streams.{name}.follow"),
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
