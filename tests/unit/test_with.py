"""`with_` of every record: any field of it can be changed, and the copy is the record that is built anew.

Records and their fields are discovered, so that a new one is tested as soon as it exists. What these tests can catch: a
field that `with_` forgets or takes unread, a copy that breaks a rule of the constructor, a copy of fields by hand.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from tests.running import examples
from tests.unit import spec_strategies as some

import windrow as wr
from windrow.errors import SpecError
from windrow.record import Record
from windrow.spec.memory import LIMITS

LONG = settings(max_examples=5_000, database=None, phases=[Phase.generate])
SOURCE = Path(wr.__file__).parent


def kinds(base: type[Record] = Record) -> Iterator[type[Record]]:
    """Every record of queries that windrow defines and that can be made: what nothing else derives from."""
    for kind in base.__subclasses__():
        if kind.__subclasses__():
            yield from kinds(kind)
        elif kind.__module__.startswith("windrow.") and not kind.__module__.startswith("windrow.sites."):
            yield kind  # plans of sites, which hold a query whole, are imported only where they are used


KINDS = sorted(set(kinds()), key=lambda kind: kind.__name__)


def names(kind: type[Record]) -> list[str]:
    """The fields of a record."""
    return [field.name for field in fields(kind)]  # type: ignore[arg-type]


def anew(one: Any, name: str, value: Any) -> Any:
    """A record with the fields of `one` but for that one, from its constructor; a memory has one limit of three."""
    if isinstance(one, wr.Memory):
        data = {"split": one.split} if name in LIMITS else one.to_dict()
        return wr.Memory.from_dict({**data, name: value})
    return type(one)(**{**{field: getattr(one, field) for field in names(type(one))}, name: value})


def changes(one: Any, other: Any, name: str) -> bool:
    """Whether `one` can have, and does not have yet, the value of that field in `other`. Compares both ways to it."""
    value = getattr(other, name)
    try:
        expected = anew(one, name, value)
    except SpecError as refused:
        with pytest.raises(type(refused), match=f"^{re.escape(str(refused))}$"):
            one.with_(**{name: value})
        return False
    found = one.with_(**{name: value})
    assert found == expected and type(found) is type(one)
    assert type(one).from_dict(found.to_dict()) == found
    return bool(getattr(one, name) != value)


def test_every_record_is_found_and_has_examples() -> None:
    assert set(KINDS) == set(some.RECORDS)
    assert all(is_dataclass(kind) and kind.with_.__doc__ for kind in KINDS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_changed_field_gives_the_record_that_is_built_anew(kind: type[Record]) -> None:
    """Whatever the values: either both ways give the same record, or both refuse."""
    changed = set()

    @examples(50)
    @given(some.RECORDS[kind], some.RECORDS[kind])
    def check(one: Any, other: Any) -> None:
        before = one.to_dict()
        changed.update(name for name in names(kind) if changes(one, other, name))
        assert one.to_dict() == before

    check()
    pairs = st.tuples(some.RECORDS[kind], some.RECORDS[kind])
    for name in set(names(kind)) - changed:  # there is an example, even if it was not among these
        find(pairs, lambda pair: changes(*pair, name), settings=LONG)  # noqa: B023


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_nothing_changed_is_an_equal_copy(kind: type[Record]) -> None:
    @examples(20)
    @given(some.RECORDS[kind])
    def check(one: Any) -> None:
        assert one.with_() == one
        assert one.with_(**{name: getattr(one, name) for name in _given(one)}) == one

    check()


def _given(one: Record) -> list[str]:
    """The fields that have a value of their own: a memory has one limit of three."""
    limited = isinstance(one, wr.Memory)
    return [name for name in names(type(one)) if not (limited and name in LIMITS and getattr(one, name) is None)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@examples(10)
@given(data=st.data())
def test_an_unknown_name_is_refused_and_the_nearest_field_named(kind: type[Record], data: st.DataObject) -> None:
    one = data.draw(some.RECORDS[kind])
    for name in names(kind):
        wrong = name + name[-1]
        with pytest.raises(SpecError, match=f"^{kind.__name__} has no field '{wrong}'; did you mean '{name}'\\?"):
            one.with_(**{wrong: getattr(one, name)})
    with pytest.raises(SpecError, match=f"^{kind.__name__} has no field 'qqq'. Known fields: "):
        one.with_(qqq=1)


def test_values_are_read_as_the_constructor_reads_them() -> None:
    stream = wr.Stream("a", "t", "10 minutes")
    assert stream.with_(window="1 h", lateness="5 s") == wr.Stream("a", "t", "1 h", "5 s")
    with pytest.raises(SpecError, match="no time column"):
        stream.with_(time=None)
    assert wr.policies.Prob().with_(statistics="sketch") == wr.policies.Prob(statistics=wr.statistics.Sketch())
    with pytest.raises(SpecError, match="expected 'prob'"):
        wr.policies.Prob().with_(name="life")


def test_a_new_limit_of_memory_takes_the_place_of_the_old_one() -> None:
    memory = wr.Memory("64 MB", split={"a": 1, "b": 3})
    assert memory.with_(rows=7) == wr.Memory(7, split={"a": 1, "b": 3})
    assert memory.with_(limit="20%", split=None) == wr.Memory("20%")
    with pytest.raises(SpecError, match="one limit, got rows, bytes"):
        memory.with_(rows=7, bytes=7)
    with pytest.raises(SpecError, match="at least one row"):
        memory.with_(rows=0)


def test_no_record_is_copied_by_hand() -> None:
    """No call of a record's class takes two of its values from the fields of one object: that is for `with_`."""
    own = {kind.__name__: set(names(kind)) for kind in KINDS}
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text())):
            name = getattr(call.func, "id", getattr(call.func, "attr", "")) if isinstance(call, ast.Call) else ""
            if isinstance(call, ast.Call) and name in own and _copied(call, own[name]):
                found.append(f"{path.relative_to(SOURCE)}:{call.lineno}: {ast.unparse(call)}")
    assert not found, "\n".join(found)


def _copied(call: ast.Call, names: set[str]) -> bool:
    values = [*call.args, *(keyword.value for keyword in call.keywords)]
    sources = [ast.unparse(value.value) for value in values if isinstance(value, ast.Attribute) and value.attr in names]
    return len(sources) > len(set(sources))
