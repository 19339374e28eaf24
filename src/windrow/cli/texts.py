"""What the options of the command line say: conditions, filters, columns, statistics and constraints as texts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from windrow.errors import SpecError, UnknownPolicy
from windrow.policies import ALL, Policy, resolve
from windrow.record import by_tag, whole
from windrow.spec import (
    Band,
    Clustered,
    Compare,
    Constraint,
    Demote,
    Distance,
    Equal,
    Filter,
    Integrity,
    Lose,
    Monitored,
    Ordered,
    Output,
    Unique,
)
from windrow.spec.constraints import MODES
from windrow.spec.predicates import Predicate

_REF = r"(?:left|right)\.[^|]+?"
_BAND = re.compile(rf"\|\s*({_REF})\s*-\s*({_REF})\s*\|\s*<=\s*(.+)")
_DISTANCE = re.compile(r"\|\s*\(([^|]+)\)\s*-\s*\(([^|]+)\)\s*\|\s*<=\s*(.+)")
_COMPARE = re.compile(rf"({_REF})\s*(<=|>=|!=|==|=|<|>)\s*({_REF})")
_WHERE = re.compile(
    r"(left|right)\.(.+?)\s*(?:(<=|>=|!=|==|=|<|>)\s*(.+)|\s(not\s+in|in)\s*\((.*)\)|\s(is\s+null|is\s+not\s+null))",
    re.IGNORECASE,
)


def predicates(texts: Iterable[str]) -> list[Predicate]:
    """The conditions of `--on`, of which all must hold."""
    return [predicate(text.strip()) for text in texts]


def predicate(text: str) -> Predicate:
    """The condition that a text stands for.

    >>> str(predicate("user_id"))
    'left.user_id = right.user_id'
    >>> str(predicate("|left.price - right.price| <= 0.5"))
    '|left.price - right.price| <= 0.5'
    """
    if found := _DISTANCE.fullmatch(text):
        points = [[ref.strip() for ref in side.split(",")] for side in found.groups()[:2]]
        return Distance(points[0], points[1], _value(found[3]))
    if found := _BAND.fullmatch(text):
        return Band(found[1], found[2], _value(found[3]))
    if found := _COMPARE.fullmatch(text):
        left, op, right = found.groups()
        return Equal(left, right) if op in ("=", "==") else Compare(left, op, right)
    if re.match(r"\||(left|right)\.|.*\s(<=|>=|!=|==|=|<|>)\s", text):
        raise SpecError(
            f"--on: cannot read {text!r}; write a column that both files have, or a condition such as "
            "'left.id = right.user_id', 'left.x < right.y' or '|left.x - right.y| <= 5'"
        )
    return Equal(f"left.{text}", f"right.{text}")


def filters(texts: Iterable[str]) -> dict[str, list[Filter]]:
    """The conditions of `--where`, by side.

    >>> filters(["left.amount > 5", "right.page in ('/a', '/b')"])
    {'left': [Filter(column='amount', op='>', value=5)],
     'right': [Filter(column='page', op='in', value=('/a', '/b'))]}
    """
    found: dict[str, list[Filter]] = {}
    for text in texts:
        match = _WHERE.fullmatch(text.strip())
        if match is None:
            raise SpecError(
                f"--where: cannot read {text!r}; write left. or right., a column, an operator and a value, "
                "such as 'left.amount > 5', \"right.page in ('/a', '/b')\" or 'left.code is not null'"
            )
        side, column, op, value, inside, items, test = match.groups()
        if op:
            made = Filter(column, "=" if op == "==" else op, _value(value))
        elif inside:
            made = Filter(column, _spaced(inside), [_value(item) for item in _items(items)])
        else:
            made = Filter(column, _spaced(test))
        found.setdefault(side.lower(), []).append(made)
    return found


def selection(texts: Iterable[str]) -> list[Output | str] | None:
    """The output columns of `--select`: `left.a`, `left.a as b`, several parted by commas; None for all.

    >>> selection(["left.a, right.b as c"])
    ['left.a', Output(column='right.b', name='c')]
    """
    parts = [part.strip() for text in texts for part in text.split(",")]
    return [_output(part) for part in parts] or None


def _output(text: str) -> Output | str:
    renamed = re.fullmatch(r"(.+?)\s+as\s+(.+)", text, re.IGNORECASE)
    return Output(renamed[1], renamed[2]) if renamed else text


def policy(name: str, statistics: str | None) -> Policy:
    """The policy with its statistics: `decayed`, or with values `decayed:half_life=5000`. Its case does not matter.

    >>> policy("PROB", "decayed:half_life=5000")
    Prob(statistics=Decayed(half_life=5000))
    """
    name = by_tag(name.lower(), ALL, "policy", UnknownPolicy).name
    if statistics is None:
        return resolve(name)
    kind, values = _configured(statistics, "--statistics", "decayed:half_life=5000")
    given = {"name": kind} | {field: whole(value, f"--statistics: {field}") for field, value in values.items()}
    if not resolve(name).needs_statistics:
        raise SpecError(f"--statistics: the policy {name!r} decides without any; leave it out, or give --policy prob")
    with _option("--statistics"):
        return resolve({"name": name, "statistics": given})


def constraints(texts: Iterable[str]) -> Monitored | list[Constraint] | None:
    """What `--constraints` says: `watch` or `auto`, perhaps with values (`auto:margin=1.5`), or declared constraints.

    >>> constraints(["auto:margin=1.5,reaction=500"])
    Monitored(release=True, margin=1.5, sample=0.01, reaction=500, most=100000)
    >>> constraints(["left is unique on id", "left -> right within 2 s"])
    [Unique(stream='left', columns=('id',)), Integrity(parent='left', child='right', k=Duration(...))]
    """
    given = [text.strip() for text in texts]
    kinds = [text.partition(":")[0].strip().lower() for text in given]
    if not any(kind in MODES for kind in kinds):
        return [_constraint(text) for text in given] or None
    if len(given) > 1:
        raise SpecError(f"--constraints {' and '.join(given)}: what is watched is not declared; give one or the other")
    _, values = _configured(given[0], "--constraints", "auto:margin=1.5")
    if "release" in values:
        raise SpecError("--constraints: write auto to have rows released, or watch to have none; leave release out")
    with _option("--constraints"):
        return Monitored.from_dict({"kind": Monitored.kind, "release": kinds[0] == "auto", **values})


def on_violation(text: str) -> Any:
    """The value of `--on-violation`: `lose`, `demote`, or how to, `lose:sample=0.01`,
    `demote:folder=/fast/scratch,disk=20GB`.

    >>> on_violation("demote:disk=20GB")
    Demote(folder=None, disk=20000000000)
    """
    kind, values = _configured(text, "--on-violation", "demote:folder=/fast/scratch,disk=20GB")
    if values and kind not in ("lose", "demote"):
        raise SpecError(f"--on-violation: {kind!r} takes no values, got {text!r}")
    with _option("--on-violation"):
        return (Lose if kind == "lose" else Demote).from_dict(values) if values else kind


def _constraint(text: str) -> Constraint:
    """The declared constraint that is shown as this text."""
    spaced = " ".join(text.split())
    said, within, k = spaced.rpartition(" within ")
    said, k = (said, k) if within else (spaced, "0 rows")
    if found := re.fullmatch(r"(\S+) -> (\S+)", said):
        return Integrity(found[1], found[2], _adherence(k))
    if found := re.fullmatch(r"(\S+) is (unique|clustered|ordered) on (.+)", said):
        columns = [column.strip() for column in found[3].split(",")]
        if found[2] == "clustered":
            return Clustered(found[1], columns, _adherence(k))
        if found[2] == "ordered":
            return Ordered(found[1], found[3], _adherence(k))
        if not within:
            return Unique(found[1], columns)
    raise SpecError(
        f"--constraints: cannot read {text!r}; write watch, auto, or what is known: 'left is unique on id', "
        "'left -> right within 100 rows', 'left is clustered on id within 5 s' or 'left is ordered on id within 0 rows'"
    )


def _adherence(text: str) -> int | str:
    """A number of rows, or a length of time."""
    rows = re.fullmatch(r"(\d[\d_,]*) rows?", text)
    if rows:
        return int(re.sub("[_,]", "", rows[1]))
    if text.replace("_", "").isdigit():
        raise SpecError(f"--constraints: {text!r} has no unit: write 'within {text} rows', or a time: 'within 5 s'")
    return text


def _configured(text: str, option: str, example: str) -> tuple[str, dict[str, Any]]:
    """A name and its values: `name:field=value,field=value`; a comma with no field behind it is part of a value.

    >>> _configured("demote:folder=scratch/a,b,disk=20GB", "--on-violation", "")
    ('demote', {'folder': 'scratch/a,b', 'disk': '20GB'})
    """
    kind, _, values = text.partition(":")
    given: dict[str, Any] = {}
    for item in filter(None, re.split(r",(?=\s*\w+\s*=|\s*$)", values)):
        field, equals, value = item.partition("=")
        if not equals:
            raise SpecError(f"{option}: cannot read {item!r}; write name:field=value, such as {example}")
        given[field.strip()] = _value(value)
    return kind.strip(), given


@contextmanager
def _option(name: str) -> Iterator[None]:
    """Errors about values of an option, which name it instead of what holds the values in Python."""
    try:
        yield
    except SpecError as error:
        said = re.sub(r"^[A-Z]\w+: ", "", re.sub(r"^[A-Z]\w+ has no field", "there is no", str(error)))
        raise type(error)(f"{name}: {said}") from error


def changes(texts: Iterable[str], option: str, form: Callable[[str], Any]) -> list[tuple[Any, Any]]:
    """What is another from a moment on: TIME=VALUE, in order of time.

    >>> changes(["500=200", "300=100"], "--memory-at", int)
    [(300, 100), (500, 200)]
    """
    found = []
    for text in texts:
        when, equals, value = text.rpartition("=")
        try:
            found.append((_value(when), form(value.strip())))
        except ValueError:
            equals = ""
        if not equals:
            raise SpecError(f"{option}: cannot read {text!r}; write TIME=VALUE, such as 2024-05-31T12:00=200")
    if len({isinstance(when, str) for when, _ in found}) > 1:
        raise SpecError(f"{option}: some times are numbers and some are not; write all as the time column has them")
    return sorted(found, key=lambda change: change[0])


def _spaced(text: str) -> str:
    return " ".join(text.lower().split())


def _items(text: str) -> list[str]:
    """The parts of a list; a comma inside quotes parts nothing."""
    return re.findall(r"""\s*('[^']*'|"[^"]*"|[^,]+)\s*(?:,|$)""", text)


def _value(text: str) -> Any:
    """A number, a truth value, a text in quotes, or anything else as a text."""
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1]
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # the second for thousands of brackets
        return text
    return value if isinstance(value, (bool, int, float, str)) else text


def sample(text: str | None) -> Any:
    """The value of `--sample`: a probability, or a word."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return text
