"""What re-planning knows and what it costs: surveys, sizes, spending, and the table of values.

Catches: surveys that cost more than their share, checks that never come, sizes or shares that a survey tells otherwise
than the rows would, entries of values that get another number than their neighbour gives them.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.running import examples

from windrow.errors import InputError
from windrow.sites import Plan, Replan, simulate
from windrow.sites.bound import Bound
from windrow.sites.figures import measured
from windrow.sites.messages import Part, body_bytes
from windrow.sites.past import Past
from windrow.sites.sizes import SIZES, Sizes
from windrow.sites.spending import MOST_GAP, Spending
from windrow.sites.survey import Survey
from windrow.sites.values import Values
from windrow.spec import Query, Stream
from windrow.spec.durations import parse_duration


@examples(100)
@given(st.integers(0, 2**32))
def test_what_is_spent_is_a_share_of_what_is_shipped(seed: int) -> None:
    random = Random(seed)
    brief, full = random.uniform(100, 900), random.uniform(1_000, 20_000)
    spending = Spending(random.choice([0.02, 0.05, 0.2]), brief)
    shipped = spent = 0.0
    gap, keys, rate = 1, True, 10 ** random.uniform(3, 6)
    for _ in range(200):
        if random.random() < 0.05:
            rate = 10 ** random.uniform(3, 6)
        flown, cost = rate * gap, full if keys else brief
        shipped, spent = shipped + flown, spent + cost
        spending.settle(flown, cost, keys, random.random() < 0.1)
        gap, keys = spending.next(rate)
        assert 1 <= gap <= MOST_GAP
        if gap == MOST_GAP:  # so little flows that nothing is a share of it
            return
    assert spent <= spending.share * shipped + 2 * full + brief
    assert spent >= 200 * brief


def rows_of(seed: int, rows: int, keys: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    texts = [bytes(rng.integers(97, 123, 12, dtype=np.uint8)).decode() for _ in range(rows)]
    times = np.sort(rng.integers(0, 20_000, rows))
    return pa.table({"t": times, "k": rng.integers(0, keys, rows), "text": texts})


def surveyed(keys: int) -> tuple[Bound, Survey, dict[str, dict[str, Part]], dict[str, pa.Table]]:
    tables = {"a": rows_of(1, 400, 60), "b": rows_of(2, 900, 90)}
    select = [("a.text", "x"), ("b.text", "y")]
    query = Query(streams=[Stream("a", "t", 3_000), Stream("b", "t", 5_000)], on="k", select=select)
    bound = Bound(query, {n: t.schema for n, t in tables.items()}, parse_duration(500, "the interval"))
    survey, found = Survey(bound, 40), {}
    for name, table in tables.items():
        past = Past(bound, name)
        past.load(table.rename_columns(["@time", f"{name}.k", f"{name}.text"]).select(bound.rows_schema((name,)).names))
        found[name] = survey.of(name, past, 0, 40, keys)
        survey.verify(name, found[name])
    return bound, survey, found, tables


def test_a_survey_of_all_keys_says_what_the_rows_say() -> None:
    bound, survey, parts, tables = surveyed(10_000)
    assert survey.is_full(parts)
    told = survey.figures(survey.base(parts), survey.facts(parts), 1e-3)
    known = measured(bound, tables, 1e-3)
    for pair, meeting in known.meetings.items():
        assert vars(told.meetings[pair]) == pytest.approx(vars(meeting), rel=1e-9)
    assert told.rates == pytest.approx(known.rates, rel=0.01)
    for name, table in known.samples.items():
        for count in (3, 10, 20):
            some = table.slice(200, count)
            assert told.sizes[name].size(table.column_names, count) == pytest.approx(body_bytes(some), rel=0.15)


def test_a_brief_survey_scales_what_a_full_one_said() -> None:
    _, survey, parts, _ = surveyed(10_000)
    base, facts = survey.base(parts), survey.facts(parts)
    assert not survey.drifted(base, facts, 1.25)
    more = {n: {**told, "rows": 2 * told["rows"], "window": 2 * told["window"]} for n, told in facts.items()}
    assert survey.drifted(base, more, 1.25)
    before, after = (survey.figures(base, told, 1e-3) for told in (facts, more))
    for pair, meeting in after.meetings.items():
        assert meeting.pairs == pytest.approx(2 * before.meetings[pair].pairs)
        assert before.meetings[pair].share <= meeting.share <= 1.0


def test_what_is_no_survey_is_refused() -> None:
    _, survey, parts, _ = surveyed(50)
    facts = parts["a"]["facts a"]
    for wrong in (
        {},
        {"facts a": Part(facts.table.slice(1), facts.facts)},
        {"facts a": Part(facts.table, {"rows": 1})},
        {"facts a": Part(facts.table, {**facts.facts, "rows": -1})},
        {**parts["a"], "facts b": facts},
        {**parts["a"], "keys a 0": Part(parts["a"]["keys a 0"].table, {"level": 40})},
    ):
        with pytest.raises(InputError, match="survey of 'a'"):
            survey.verify("a", wrong)


def test_sizes_travel_as_numbers() -> None:
    table = pa.table({"@time": np.arange(300), "a.k": np.arange(300) % 7, "a.text": [f"row {k}" for k in range(300)]})
    sizes = Sizes.of(table, 100)
    again = Sizes.read(sizes.table().cast(SIZES)["n"].to_numpy(), table.schema)
    assert again.size(["@time", "a.k"], 40) == pytest.approx(sizes.size(["@time", "a.k"], 40), abs=1)
    assert sizes.size(table.column_names, 100) == pytest.approx(body_bytes(table.slice(100, 100)), rel=0.02)


def test_surveys_of_streams_that_stay_as_they_are_cost_little() -> None:
    tables = {"a": rows_of(1, 300, 900), "b": rows_of(2, 3_000, 900)}
    query = Query(streams=[Stream("a", "t", 1_000), Stream("b", "t", 1_000)], on="k", select=[("a.text", "x")])
    plan = Plan(query, {"a": "A", "b": "B"}, {"a": [("b", "SM-S1")], "b": [("a", "SM-S1")]}, interval=200)
    found = simulate(plan, tables, step_seconds=1e-3, replan=Replan(1_000, gain=0.9, sample=64))
    told = sum(n for channel, n in found.channels.items() if channel.split()[0] in ("facts", "keys", "decision"))
    first = 2_500  # the first survey, which is paid for afterwards
    assert 0 < told - first < 0.07 * (found.bytes - told)


@examples(40)
@given(st.integers(0, 2**32))
def test_values_have_the_numbers_of_a_dictionary(seed: int) -> None:
    random = Random(seed)
    here, there = Values(), Values()
    known: dict[int, list[int]] = {}  # code: number, rows
    alive: list[int] = []
    following = 0
    for _ in range(random.randint(1, 12)):
        codes = [random.randrange(random.choice([3, 40, 2**64])) for _ in range(random.randint(0, 60))]
        place, first = here.add(np.array(codes, np.uint64))
        new = []
        for row, code in enumerate(codes):
            if code not in known:
                known[code], following = [following, 0], following + 1
                new.append(row)
            known[code][1] += 1
            alive.append(code)
        assert first.tolist() == new
        assert here.number[place].tolist() == [known[code][0] for code in codes]
        there.open(np.array(codes, np.uint64)[first])
        random.shuffle(alive)
        gone = [alive.pop() for _ in range(random.randint(0, len(alive)))]
        here.subtract(np.array([known[code][0] for code in gone], np.int64))
        for code in gone:
            known[code][1] -= 1
        empty = here.gone()
        here.remove(empty)
        there.remove(empty)
        known = {code: entry for code, entry in known.items() if entry[1]}
        assert here.codes.tolist() == there.codes.tolist() == sorted(known, key=lambda code: known[code][0])
        assert here.count.tolist() == [known[code][1] for code in here.codes.tolist()]
        asked = [*list(known)[:20], *range(20)]
        found = here.find(np.array(asked, np.uint64))
        assert [p >= 0 and int(here.codes[p]) == code for p, code in zip(found, asked, strict=True)] == [
            code in known for code in asked
        ]
        if random.random() < 0.3:
            here = Values.of(here.table(), here.next)
