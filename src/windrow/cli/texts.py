"""What the options of the command line say: conditions, filters, columns and statistics as texts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from windrow.errors import SpecError
from windrow.policies import Policy, resolve
from windrow.record import whole
from windrow.spec import Band, Compare, Distance, Equal, Filter, Output
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
    """The policy with its statistics: `decayed`, or with values `decayed:half_life=5000`.

    >>> policy("prob", "decayed:half_life=5000")
    Prob(statistics=Decayed(half_life=5000))
    """
    if statistics is None:
        return resolve(name)
    kind, _, values = statistics.partition(":")
    given: dict[str, Any] = {"name": kind.strip()}
    for item in filter(None, values.split(",")):
        field, equals, value = item.partition("=")
        if not equals:
            raise SpecError(
                f"--statistics: cannot read {item!r}; write name:field=value, such as decayed:half_life=5000"
            )
        given[field.strip()] = whole(_value(value), f"--statistics: {field.strip()}")
    if not resolve(name).needs_statistics:
        raise SpecError(f"--statistics: the policy {name!r} decides without any; leave it out, or give --policy prob")
    return resolve({"name": name, "statistics": given})


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
    except ValueError:
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
