"""Policies and statistics as configuration.

Catches: a policy that is not in the list, two of one name or number, parameters let through unchecked, names
that do not resolve, JSON that reads back as something else.
"""

from __future__ import annotations

import pickle
import re
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from tests.unit import spec_strategies as some

from windrow import errors, policies, statistics
from windrow.errors import MissingDependency, SpecError, UnknownColumn, UnknownPolicy
from windrow.kernels import policies as rooms
from windrow.kernels.hooks import hooks
from windrow.policies import Policy, Prob
from windrow.statistics import Decayed, Running, Sketch, Statistic

EVERY: list[type[Any]] = [*policies.ALL, policies.Given, *statistics.ALL]


def test_every_policy_and_statistic_is_listed() -> None:
    assert {*policies.ALL, policies.Given} == set(Policy.__subclasses__())
    assert set(statistics.ALL) == set(Statistic.__subclasses__())


def test_names_and_rules_are_unique() -> None:
    names = ["rand", "fifo", "prob", "life", "life-expected", "gdj", "age", "auto"]
    assert [policy.name for policy in policies.ALL] == names
    assert [statistic.name for statistic in statistics.ALL] == ["oracle", "running", "decayed", "sketch"]
    assert len({policy.rule for policy in (*policies.ALL, policies.Given)}) == len(policies.ALL) + 1


def test_every_rule_is_a_file_of_kernels() -> None:
    for policy in (*policies.ALL, policies.Given):
        assert hooks(policy.rule)._modules[0].__name__ == f"{rooms.__name__}.{policy.rule}"


@pytest.mark.parametrize("file", sorted(Path(rooms.__path__[0]).glob("*.py")), ids=lambda path: path.stem)
def test_what_takes_hooks_is_called(file: Path) -> None:
    """Can catch: a hook that is misspelt in a policy's file, so that nobody ever calls it."""
    kernels = "".join(path.read_text("utf-8") for path in Path(rooms.__path__[0]).parent.rglob("*.py"))
    for name in re.findall(r"^def (\w+)\(\s*h: Any", file.read_text("utf-8"), re.MULTILINE):
        called = re.findall(rf"(?<!def )\b{name}\(", kernels)
        assert called, f"{file.name}: nobody calls {name}"


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.name)
class TestEvery:
    def test_resolves(self, kind: Any) -> None:
        package = policies if issubclass(kind, Policy) else statistics
        assert package.by_name(kind.name) is kind
        assert package.resolve(kind.name) == kind()
        assert package.resolve(kind().to_dict()) == kind()
        made = kind()
        assert package.resolve(made) is made

    def test_is_frozen_and_hashable(self, kind: Any) -> None:
        made = kind()
        assert hash(made) == hash(kind())
        for field in fields(made):
            with pytest.raises(FrozenInstanceError):
                setattr(made, field.name, None)

    def test_says_what_it_is(self, kind: Any) -> None:
        assert kind.__doc__ and not kind.__doc__.startswith(f"{kind.__name__}(")
        if issubclass(kind, Policy):
            assert kind.paper
            assert "Why:" in kind.__doc__ and "fails:" in " ".join(kind.__doc__.split())

    def test_statistics_field(self, kind: Any) -> None:
        if issubclass(kind, Policy):
            assert kind.needs_statistics == ("statistics" in {field.name for field in fields(kind)})

    def test_refuses_other_json(self, kind: Any) -> None:
        with pytest.raises(SpecError, match="has no field 'bogus'"):
            kind.from_dict({"name": kind.name, "bogus": 1})
        with pytest.raises(SpecError, match="expected"):
            kind.from_dict({"name": "another"})
        with pytest.raises(SpecError, match="version None is unknown"):
            kind.from_json("{}")


@given(some.any_policies)
def test_policy_json_reads_back_as_the_same(policy: Policy) -> None:
    assert type(policy).from_json(policy.to_json()) == policy
    assert policies.resolve(policy.to_dict()) == policy


@given(some.any_statistics)
def test_statistic_json_reads_back_as_the_same(statistic: Statistic) -> None:
    assert type(statistic).from_json(statistic.to_json()) == statistic
    assert statistics.resolve(statistic.to_dict()) == statistic


def test_only_the_oracle_sees_the_future() -> None:
    assert [statistic.name for statistic in statistics.ALL if not statistic.honest] == ["oracle"]


def test_statistics_of_a_policy() -> None:
    assert Prob().statistics == Running()
    assert Prob(statistics="sketch").statistics == Sketch()  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="there is no statistic 'skech'; did you mean 'sketch'"):
        Prob(statistics="skech")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("porb", "did you mean 'prob'? Known names: rand, fifo, prob, life, life-expected"),
        ("PROB", "did you mean 'prob'?"),
        ("zzz", "there is no policy 'zzz'. Known names: rand,"),
        (3, "policy must be a name or a Policy, got 3"),
        (None, "policy must be a name or a Policy, got None"),
        (Prob, "write Prob(...)"),
        ({}, "has no 'name'"),
        ({"name": 5}, "there is no policy 5"),
    ],
)
def test_unknown_policy(value: Any, message: str) -> None:
    with pytest.raises(UnknownPolicy) as caught:
        policies.resolve(value)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Decayed(0), "half_life, a number of arrivals, must be at least 1, got 0"),
        (lambda: Decayed("10 min"), "half_life, a number of arrivals, must be a whole number, got '10 min'"),
        (lambda: Decayed(1.5), "must be a whole number"),
        (lambda: Sketch(width=0), "Sketch: width must be at least 1"),
        (lambda: Sketch(depth=0), "Sketch: depth must be at least 1"),
        (lambda: Sketch(depth=65), "Sketch: depth must be at most 64"),
        (lambda: Sketch(half_life=0), "Sketch: half_life"),
        (lambda: Sketch(width=True), "width must be a whole number"),
    ],
)
def test_bad_statistics(make: Any, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        make()
    assert message in str(caught.value)


# ------------------------------------------------------------------------------------------------ errors


@pytest.mark.parametrize("name", errors.__all__)
def test_errors_survive_a_trip_between_processes(name: str) -> None:
    error = getattr(errors, name)("what is wrong, where, what to do")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (type(error), str(error))
    assert isinstance(error, errors.WindrowError)


def test_unknown_column_names_the_nearest() -> None:
    error = UnknownColumn.of("user", ["ts", "user_id"], "stream 'left'")
    assert str(error) == "stream 'left' has no column 'user'; did you mean 'user_id'? Known columns: ts, user_id"
    assert "Known columns: none" in str(UnknownColumn.of("user", [], "stream 'left'"))
    many = UnknownColumn.of("user", [f"c{i}" for i in range(30)], "stream 'left'")
    assert str(many).endswith("c19 and 10 more")


def test_missing_dependency_says_what_to_install() -> None:
    error = MissingDependency.of("ortools", "The optimum")
    assert str(error).endswith("pip install ortools")
    assert isinstance(error, ImportError)
