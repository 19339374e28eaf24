"""Record: what every piece of configuration has in common.

A record is a frozen dataclass that checks its values when it is made, and that turns into plain JSON
values and back without loss. Its constructor accepts the JSON form of each value ("10 minutes" for a
duration, a list for a tuple), so reading is no more than calling the constructor with known names.
"""

from __future__ import annotations

import inspect
import json
import numbers
import operator
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, ClassVar, Self, TypeVar

from windrow.errors import SpecError, alternatives

VERSION = 1
"""The version written into JSON texts. It grows when an older reader could misread a newer text."""

INT64_MAX = 2**63 - 1


class Record:
    """A frozen, validated piece of configuration with a JSON form.

    `TAG` names the class attribute that tells sister classes apart in JSON: `"name"` for policies and
    statistics, `"kind"` for predicates. A record that is one of a kind leaves it empty.
    """

    TAG: ClassVar[str] = ""

    def to_dict(self) -> dict[str, Any]:
        """The record as a dict of JSON values."""
        values = {field.name: encode(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]
        return {self.TAG: getattr(self, self.TAG), **values} if self.TAG else values

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The record that `to_dict` wrote; missing values take their defaults, unknown ones are an error."""
        return cls(**cls._arguments(data))

    @classmethod
    def _arguments(cls, data: object) -> dict[str, Any]:
        """The constructor's arguments in `data`, names checked."""
        noun = cls.__name__
        if not isinstance(data, Mapping):
            raise SpecError(f"{noun}: expected an object with named values, got {data!r}")
        given = {key: value for key, value in data.items() if not cls.TAG or key != cls.TAG}
        if cls.TAG and data.get(cls.TAG, getattr(cls, cls.TAG)) != getattr(cls, cls.TAG):
            raise SpecError(f"{noun}: {cls.TAG} is {data[cls.TAG]!r}, expected {getattr(cls, cls.TAG)!r}")
        known = _parameters(cls)  # type: ignore[arg-type]
        for name in given:
            if name not in known:
                raise SpecError(f"{noun} has no field {name!r}{alternatives(str(name), known, 'fields')}")
        for name, parameter in known.items():
            if parameter.default is parameter.empty and name not in given:
                raise SpecError(f"{noun}: the field {name!r} is missing")
        return given

    def to_json(self) -> str:
        """The record as a JSON text that carries its version."""
        return json.dumps({"version": VERSION, **self.to_dict()}, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The record that `to_json` wrote."""
        return cls.from_dict(read_versioned(text, cls.__name__))

    def with_(self, **changes: Any) -> Self:
        """A copy in which the named fields have other values, read and checked as the constructor does.

        >>> import windrow as wr
        >>> clicks = wr.Stream("clicks", time="ts", window="10 minutes", where=[("page", "!=", "home")])
        >>> longer = clicks.with_(window="1 hour", lateness="5 s")
        >>> longer.name, str(longer.window), str(longer.lateness), [str(condition) for condition in longer.where]
        ('clicks', '1 hour', '5 seconds', ["page != 'home'"])
        >>> clicks.with_(lateniss="5 s")
        Traceback (most recent call last):
        windrow.errors.SpecError: Stream has no field 'lateniss'; did you mean 'lateness'? Known fields: name, time, ...
        """
        own = {name: getattr(self, name) for name in _parameters(type(self))}  # type: ignore[arg-type]
        return type(self)(**self._arguments({**own, **changes}))

    def _set(self, **values: object) -> None:
        """Give the fields of a frozen record their values, from its own constructor only."""
        for name, value in values.items():
            object.__setattr__(self, name, value)


@cache  # every snapshot that is restored reads a query, and looking at a signature takes longer than that
def _parameters(kind: type[Record]) -> Mapping[str, inspect.Parameter]:
    """What the constructor of a record takes."""
    return inspect.signature(kind).parameters


R = TypeVar("R", bound=Record)


def encode(value: Any) -> Any:
    """A field's value as JSON values."""
    if isinstance(value, Record):
        return value.to_dict()
    if hasattr(value, "to_value"):
        return value.to_value()
    if isinstance(value, (tuple, list)):
        return [encode(item) for item in value]
    return value


def read_versioned(text: str | bytes, noun: str) -> dict[str, Any]:
    """The object in a JSON text, without its version, which must be one that is known here."""
    try:
        data = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise SpecError(f"{noun}: this is not JSON text: {error}") from None
    if not isinstance(data, dict):
        raise SpecError(f"{noun}: expected a JSON object, got {type(data).__name__}")
    version = data.pop("version", None)
    if type(version) is not int or version != VERSION:
        raise SpecError(f"{noun}: version {version!r} is unknown here; this windrow reads version {VERSION}")
    return data


def resolve(
    value: object, base: type[R], choices: Sequence[type[R]], noun: str, error: type[SpecError] = SpecError
) -> R:
    """The record that `value` stands for: itself, the one of that name with defaults, or its dict form."""
    if isinstance(value, base):
        return value
    if isinstance(value, str):
        return by_tag(value, choices, noun, error)()
    if isinstance(value, Mapping):
        tag = base.TAG
        if tag not in value:
            raise error(f"{noun} {dict(value)!r} has no {tag!r}")
        return by_tag(value[tag], choices, noun, error).from_dict(value)
    if isinstance(value, type) and issubclass(value, base):
        raise error(f"{noun} {value.__name__} is a class: write {value.__name__}(...) to configure one")
    raise error(f"{noun} must be a name or a {base.__name__}, got {value!r}")


def by_tag(value: object, choices: Sequence[type[R]], noun: str, error: type[SpecError] = SpecError) -> type[R]:
    """The class among `choices` whose tag is `value`."""
    known = {getattr(choice, choice.TAG): choice for choice in choices}
    if isinstance(value, str) and value in known:
        return known[value]
    raise error(f"there is no {noun} {value!r}{alternatives(str(value), known, 'names')}")


def whole(value: object, what: str, least: int = 0, most: int = INT64_MAX) -> int:
    """`value` as an int between `least` and `most`, or an error about `what`."""
    number = as_int(value)
    if number is None:
        raise SpecError(f"{what} must be a whole number, got {value!r}")
    if number < least:
        raise SpecError(f"{what} must be at least {least}, got {number}")
    if number > most:
        raise SpecError(f"{what} must be at most {most}, got {number}")
    return number


def as_int(value: object) -> int | None:
    """`value` as an int if it is an integer of any library, but not a truth value."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def number(value: object, what: str) -> int | float:
    """`value` as a finite number that is not negative, or an error about `what`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise SpecError(f"{what} must be a number, got {value!r}")
    exact = as_int(value)
    result = float(value) if exact is None else exact
    if not 0 <= result <= sys.float_info.max:  # also refuses NaN
        raise SpecError(f"{what} must be a finite number that is not negative, got {value!r}")
    return result


def listed(value: object, what: str) -> list[Any]:
    """`value` if it is a list, or an error about `what`."""
    if isinstance(value, list):
        return value
    raise SpecError(f"{what} must be a list, got {value!r}")


def one_of(value: object, choices: Sequence[str], what: str) -> str:
    """`value` if it is one of `choices`, or an error about `what` that lists them."""
    if isinstance(value, str) and value in choices:
        return value
    raise SpecError(f"{what} must be one of {', '.join(map(repr, choices))}, got {value!r}")


def name_text(value: object, what: str) -> str:
    """`value` if it is a text that is not empty, or an error about `what`."""
    if isinstance(value, str) and value.strip():
        return str(value)
    raise SpecError(f"{what} must be a text that is not empty, got {value!r}")
