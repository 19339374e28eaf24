"""Setting: one file, TOML or JSON, that names streams with their sites, the links and the query.

on = "user_id"                      # or a list: ["clicks.user_id = orders.user_id"]
interval = "1 s"                    # how long rows are gathered
delay = "100 ms"                    # how long a message may be under way before anybody waits
result_at = "hub"                   # where matches go; left out, they stay where they arise
objective = "bytes"                 # or "time", "money"
replan = { every = "1 minute" }     # look at the plan again, and replace it where another costs less (council.py)
memory = "64 MB"                    # what each site may hold; also in [sites.NAME]; not with replan (budget.py)
policy = "prob"                     # by which windows that are full shed

[streams.clicks]
site = "edge"
file = "clicks.parquet"
time = "ts"
window = "10 minutes"               # or a number: that many rows, with window_rows = 1000

[links."edge - hub"]                # both ways; "edge -> hub" is one
latency = "25 ms"
bandwidth = "10 Mbit/s"
price = 0.09                        # of a gigabyte
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from windrow.errors import InputError, SpecError, alternatives
from windrow.record import number, one_of
from windrow.sites.bound import Bound
from windrow.sites.costs import OBJECTIVES
from windrow.sites.council import Replan
from windrow.sites.links import Links
from windrow.sites.planners import PLANNERS
from windrow.sites.planning import Planned
from windrow.sites.plans import Plan
from windrow.spec import Query, Stream, Window
from windrow.spec.durations import parse_duration

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_KEYS = (
    "on", "select", "interval", "delay", "result_at", "objective", "planner", "origin", "step_seconds", "streams",
    "links", "patience", "plan", "sites", "security", "hold", "snapshot",
    "replan", "memory", "policy",
)  # fmt: skip
_STREAM = ("site", "file", "time", "window", "window_rows", "where", "lateness")
_SERVED = ("schema", "follow", "pace", "starts", "idle")  # read by ground/description.py, as are the last five above


@dataclass(frozen=True)
class Setting:
    """What a file says."""

    query: Query
    sites: dict[str, str]
    files: dict[str, Path]
    links: Links
    interval: Any
    delay: Any
    result_at: str | None
    objective: Any
    planner: Any
    origin: Any  # a number, a text, or a time; see origin_of
    step_seconds: float
    data: Mapping[str, Any]  # all that the file says

    @property
    def replan(self) -> Replan | None:
        """When the plan is looked at again, if it is."""
        given = self.data.get("replan")
        if given is None:
            return None
        try:
            found = Replan.from_dict(given)
        except SpecError as error:
            raise SpecError(f"replan: {str(error).removeprefix('replan: ')}") from None
        return found if found.objective else found.with_(objective=self.objective)

    @property
    def memory(self) -> Any:
        """What each site may hold: one for all, those of sites that have their own, or None."""
        every = self.data.get("memory")
        sites = self.data.get("sites", {})
        own = {name: entry["memory"] for name, entry in sites.items() if "memory" in entry}
        if not own:
            return every
        return own if every is None else dict.fromkeys([*self.sites.values(), *sites], every) | own

    @property
    def policy(self) -> Any:
        """By which policy windows that are full shed."""
        return self.data.get("policy")


def read_setting(path: Path) -> Setting:
    """The setting of a file, or an error that says what is wrong with it."""
    text = _text(path)
    try:
        data = json.loads(text) if path.suffix.lower() == ".json" else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: this is neither TOML nor JSON: {error}") from error
    try:
        return setting_of(data, path.parent)
    except SpecError as error:
        raise type(error)(f"{path}: {error}") from None


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: reading failed: {getattr(error, 'strerror', None) or error}") from error


def origin_of(setting: Setting, schemas: Mapping[str, pa.Schema]) -> int | None:
    """Where interval 0 begins, in units of the times: a number, or a time of the calendar (without a zone, UTC)."""
    origin = setting.origin
    if isinstance(origin, str):
        try:
            origin = datetime.fromisoformat(origin)
        except ValueError:
            raise SpecError(f"origin {origin!r} is no time, such as 2024-05-31T12:00") from None
    if origin is None or isinstance(origin, int):
        return origin
    if not isinstance(origin, datetime):
        raise SpecError(f"origin must be a whole number or a time such as 2024-05-31T12:00, got {origin!r}")
    unit = Bound(setting.query, dict(schemas), parse_duration(setting.interval, "the interval")).unit
    if unit not in _PER_SECOND:
        raise SpecError("origin is a time of the calendar, and the streams' times are numbers")
    since = origin.replace(tzinfo=origin.tzinfo or UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(microseconds=1) * _PER_SECOND[unit] // 10**6


def write_plan(path: Path, planned: Planned) -> None:
    """Write a plan as JSON; and beside it, what it expects to go over each link, for those who watch it at work."""
    try:
        path.write_text(planned.plan.to_json() + "\n", encoding="utf-8")
        _beside(path).write_text(json.dumps(planned.expected()) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: writing failed: {error.strerror or error}") from error


def read_plan(path: Path) -> tuple[Plan, dict[str, float]]:
    """A plan, and the bytes that it expects on each link in a second, if they are known."""
    plan, beside = Plan.from_json(_text(path)), _beside(path)
    try:
        told = json.loads(_text(beside)) if beside.exists() else {}
        return plan, {str(ends): float(rate) for ends, rate in told.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{beside}: this does not tell bytes per second by link: {error}") from None


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.stem}.expected.json")


def setting_of(data: Any, folder: Path = Path()) -> Setting:
    """The setting that plain values stand for; files are looked for in a folder."""
    given = _known(data, _KEYS, "the setting")
    names = (*_STREAM, *_SERVED)
    streams = {name: _known(one, names, f"stream {name!r}") for name, one in _table(given, "streams").items()}
    for name, one in streams.items():
        if not isinstance(one.get("site"), str):
            raise SpecError(f"stream {name!r}: site must say where it is")
        if "file" in one:
            file_name(one["file"], f"stream {name!r}: file")
    if "on" not in given:
        raise SpecError("the setting has no 'on': say what is equal in a match")
    query = Query(
        streams=[_stream(name, one) for name, one in streams.items()],
        on=given["on"],
        select=given.get("select"),
        patience=given.get("patience"),
    )
    links = Links({ends: _known(link, _LINK, f"link {ends!r}") for ends, link in _table(given, "links", {}).items()})
    _check_places(given, streams, links)
    return Setting(
        query=query,
        sites={name: one["site"] for name, one in streams.items()},
        files={name: folder / one["file"] for name, one in streams.items() if "file" in one},
        links=links,
        interval=given.get("interval", "1 s"),
        delay=given.get("delay", 0),
        result_at=given.get("result_at"),
        objective=one_of(given.get("objective", "time"), OBJECTIVES, "objective"),
        planner=one_of(given.get("planner", "auto"), ("auto", *PLANNERS), "planner"),
        origin=given.get("origin"),
        step_seconds=float(number(given.get("step_seconds", 1.0), "step_seconds")),
        data=given,
    )


_LINK = ("latency", "bandwidth", "jitter", "price")


def _check_places(given: Mapping[str, Any], streams: Mapping[str, Any], links: Links) -> None:
    """Refuse names of sites that nothing is at: a link that is misspelt would be one without a limit."""
    used = {f"streams.{name}": one["site"] for name, one in streams.items()}
    used |= {} if given.get("result_at") is None else {"result_at": str(given["result_at"])}
    known = list(dict.fromkeys(used.values()))
    if isinstance(sites := given.get("sites"), Mapping):
        known = list(sites)
    used |= {f"link {one!r} - {other!r}": site for one, other in links.known for site in (one, other)}
    for where, site in used.items():
        if site not in known:
            raise SpecError(f"{where}: there is no site {site!r}{alternatives(site, known, 'sites')}")


def _stream(name: str, one: Mapping[str, Any]) -> Stream:
    if "window" in one and "window_rows" in one:
        raise SpecError(f"stream {name!r}: give window or window_rows, not both")
    window = Window.rows(one["window_rows"]) if "window_rows" in one else one.get("window")
    where = one.get("where", [])
    if not isinstance(where, list) or not all(isinstance(condition, list) for condition in where):
        raise SpecError(
            f"stream {name!r}: where must be a list of conditions, as in [['price', '>', 10]], got {where!r}"
        )
    where = [tuple(condition) for condition in where]
    return Stream(name, one.get("time"), window, one.get("lateness", 0), where)


def file_name(value: Any, where: str) -> str:
    """The name of a file or folder, or an error that says where it stands."""
    if not isinstance(value, str) or not value or "\0" in value:
        raise SpecError(f"{where} must be a name, got {value!r}")
    return value


def _table(given: Mapping[str, Any], name: str, default: Any = None) -> Mapping[str, Any]:
    found = given.get(name, default)
    if not isinstance(found, Mapping):
        raise SpecError(f"the setting needs [{name}.NAME] for each of its {name}")
    return found


def _known(data: Any, names: tuple[str, ...], what: str) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise SpecError(f"{what}: expected names and values, got {data!r}")
    for name in data:
        if name not in names:
            raise SpecError(f"{what} has no {name!r}{alternatives(str(name), names, 'names')}")
    return data
