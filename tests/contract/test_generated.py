"""Whatever an engine can become, its snapshot restores to the same bytes, and what is restored goes on as it would.

Every policy with any parameters, any query, any budget from the smallest on, shared or split, samplers, values,
several joins, changes while it runs, extreme numbers, trials: an engine that is restored after every step is compared
with one that never is, and both with the exact join.

Catches: states that are written and not read again, state that a snapshot forgets, budgets passed, rows counted twice
or never, matches that the exact join does not have, steps that are refused and half done.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, seed
from tests.contract.test_policies import assert_within
from tests.histories import SAMPLES, WHOLE, History, Push, Resize, histories
from tests.running import assert_accounted, assert_part, assert_same, examples, multiset, same_bytes
from tests.streams import DEFAULT

import windrow as wr
from windrow import policies
from windrow.errors import MemoryFull, MemoryTooSmall, SnapshotError
from windrow.state.snapshot import form as snapshots
from windrow.state.snapshot.narrow import columns_of


def by_join(found: Any) -> dict[str, pa.Table]:
    """What a push or departed() gave, by name."""
    return found if isinstance(found, dict) else {} if found is None else {"": found}


def outcome(step: Any, engine: wr.Engine) -> tuple[dict[str, pa.Table], str]:
    """What a step gives, or why it is refused; whatever else it raises is a defect."""
    try:
        return by_join(step.take(engine)), ""
    except MemoryTooSmall as error:
        assert isinstance(step, Resize)
        return {}, str(error)
    except MemoryFull as error:
        assert engine.query.on_full == "fail"
        return {}, str(error)


def assert_same_tables(one: dict[str, pa.Table], other: dict[str, pa.Table]) -> None:
    assert one.keys() == other.keys()
    assert all(same_bytes(one[name], other[name]) for name in one)


def assert_same_state(one: bytes, other: bytes) -> None:
    """Two snapshots are equal, or the failure names what differs."""
    if one != other:
        parts = [_named_parts(data) for data in (one, other)]
        names = [name for name in {**parts[0], **parts[1]} if parts[0].get(name) != parts[1].get(name)]
        raise AssertionError({name: [part.get(name) for part in parts] for name in sorted(names)})


def _named_parts(data: bytes) -> dict[str, Any]:
    """What a snapshot holds, by name: the header's entries, columns of shards, other parts by number."""
    snap = snapshots.read(data)
    found: dict[str, Any] = {name: json.dumps(value) for name, value in snap.header.items()}
    for k, part in enumerate(snap.parts):
        try:
            found |= {f"{k}: {name}": column.tolist() for name, column in columns_of(snapshots.table_of(part)).items()}
        except (SnapshotError, pa.ArrowException, ValueError):
            found[f"{k}"] = part.to_pybytes()
    return found


def told(engine: wr.Engine) -> str:
    """The metrics as text, in which NaN is NaN."""
    return json.dumps(engine.metrics.to_dict(), sort_keys=True)


class Twins:
    """A history while it is lived: twice with the cap, restored after every step or never, and once exactly."""

    def __init__(self, history: History, seen: Counter[str]) -> None:
        self.history, self.seen = history, seen
        self.never, self.always = history.never_restored(), history.engine()
        query = history.case.query.with_(constraints=None, on_violation="lose")
        query = query.with_(memory=None, sample=None, on_full="shed")
        self.exact = wr.Engine(query, schemas=history.case.schemas)
        self.found: Counter[Any] = Counter()
        self.expected: Counter[Any] = Counter()
        self.resized = False
        self.waits = False  # whether residents were there, and recall's second join had not begun

    def live(self) -> None:
        data = self.restored()
        for step in self.history.steps:
            found, refused = outcome(step, self.never)
            again = outcome(step, self.always)
            assert again[1] == refused
            assert_same_tables(found, again[0])
            if self.never._keeps_departures:
                assert_same_tables(self.never.departed(), self.always.departed())
            if refused:
                assert_same_state(self.never.snapshot(), data)
            else:
                self.compare(step, found)
            self.check()
            data = self.restored()
            self.note(step, refused)
        assert_same_state(self.never.snapshot(), data)

    def restored(self) -> bytes:
        """Go on with what is restored: the same state, to the byte."""
        data = self.always.snapshot()
        self.always = wr.Engine.restore(data)
        assert_same_state(self.always.snapshot(), data)
        assert told(self.always) == told(self.never)
        return data

    def compare(self, step: Any, found: dict[str, pa.Table]) -> None:
        """Nothing is found that the exact join does not have, and everything if nothing was shed."""
        self.resized = self.resized or isinstance(step, Resize)
        if not isinstance(step, Resize):
            expected = by_join(step.take(self.exact))
            for name, table in expected.items():
                self.expected.update({(name, *row): n for row, n in multiset(table).items()})
        metrics, exact = self.never.metrics, self.exact.metrics
        assert (metrics.arrived, metrics.late) == (exact.arrived, exact.late)
        if self.never.query.constraints is None:
            assert metrics.ignored == exact.ignored
        assert metrics.ignored <= exact.ignored  # rows that a filter refuses may stay to tell later parents
        assert metrics.matched <= exact.matched
        lossless = not (metrics.shed or (self.releases() and not self.keeps_what_is_released()))
        assert not lossless or metrics.matched == exact.matched
        tracker = self.never._tracker if self.never._binding is not None else None
        sure = tracker is not None and tracker.begun and tracker.share == 1.0 and not tracker.given_up
        if sure and not self.releases():  # matches of released rows, missed or found on disk, are estimated
            violated = any(known.violations for known in metrics.constraints.values())
            assert metrics.exact_matched == exact.matched or (violated and metrics.exact_matched is None)
        if not self.never.count_only:
            for name, table in found.items():
                self.found.update({(name, *row): n for row, n in multiset(table).items()})
            assert_part(self.found, self.expected)
            if lossless:
                assert_same(self.found, self.expected)

    def releases(self) -> bool:
        """Whether rows were found useless by constraints, which need not hold; those that are spared are here still."""
        metrics = self.never.metrics
        return metrics.released > 0 or any(known.released for known in metrics.constraints.values())

    def keeps_what_is_released(self) -> bool:
        """Whether released rows are on disk, all of them."""
        return self.never.query.demotes is not None and not any(d.dropped for d in self.never.metrics.demoted.values())

    def check(self) -> None:
        """Rows are accounted for, and the budget is kept."""
        assert_accounted(self.never)
        memory = self.never.memory
        if memory is not None and not self.resized:
            assert_within(self.never, memory)
        elif memory is not None:
            assert self.never.metrics.resident_rows <= (memory.rows or 10**9)
            assert self.never.metrics.resident_bytes <= (memory.bytes or 10**12)

    def note(self, step: Any, refused: str) -> None:
        """Remember what was reached, so that a search which reaches nothing is found out."""
        query, metrics, seen = self.never.query, self.never.metrics, self.seen
        shard = self.never._shard
        trials = None if shard is None else shard.trials
        tracker = None if shard is None else self.never._tracker
        waited, self.waits = self.waits, tracker is not None and not tracker.begun and metrics.resident_rows > 0
        seen.update({
            "shed": metrics.shed > 0,
            "split": query.memory is not None and query.memory.split is not None and metrics.shed > 0,
            "bytes": query.memory is not None and query.memory.bytes is not None and metrics.shed > 0,
            "sampled": metrics.sampled > 0, "valued": query.value is not None and metrics.shed > 0,
            "joins": query.named and metrics.shed > 0, "late": metrics.late > 0, "expired": metrics.expired > 0,
            "watermark": isinstance(step, Push) and step.watermark is not None, "changed": not isinstance(step, Push),
            "no cap": query.memory is None, "refused": bool(refused), "released": metrics.released > 0,
            "found on disk": any(one.found for one in metrics.demoted.values()),
            "sampled, constrained": metrics.sampled > 0 and metrics.released > 0,
            "not begun": self.waits, "begun late": waited and tracker is not None and tracker.begun,
            "sampled late": waited and tracker is not None and tracker.share < 1.0,
            "forks": trials is not None and bool(trials.forks) and trials.sample.is_whole,
            "samples": trials is not None and bool(trials.forks) and not trials.sample.is_whole,
            "resting": trials is not None and trials.window > 0 and not trials.forks,
        })  # fmt: skip


OTHERS = [policy for policy in (*policies.ALL, policies.Given) if policy is not DEFAULT]
TRIALS = {
    "forks": {"tried": WHOLE}, "samples": {"tried": SAMPLES}, "begun late": {"filling": True},
    "found on disk": {"demoting": True},
}  # fmt: skip


@pytest.mark.parametrize(
    "policy, trial", [(DEFAULT, ""), *((DEFAULT, trial) for trial in TRIALS), *((policy, "") for policy in OTHERS)]
)
def test_whatever_an_engine_becomes_it_restores_to_the_same_bytes(
    policy: type[policies.Policy], trial: str, request: pytest.FixtureRequest
) -> None:
    """Ten times as many histories in all as a profile has examples; in more than half the policy is the default one."""
    seen: Counter[str] = Counter()

    @examples(160 if policy is DEFAULT else 550 // len(OTHERS))
    @given(histories(policy, **TRIALS.get(trial, {})))
    def search(history: History) -> None:
        seen["histories"] += 1
        with history.constants():
            Twins(history, seen).live()

    given_seed = request.config.getoption("--hypothesis-seed", default=None)
    if given_seed is not None:  # other histories for each policy
        search = seed(f"{given_seed} {policy.name} {trial}")(search)
    search()
    print(f"{policy.name} {trial}: {seen.pop('histories')} histories; steps after which there was: {dict(seen)}")
    more = ("released", "sampled, constrained") if trial == "found on disk" else ()
    assert all(seen[name] for name in ("shed", "changed", trial or "shed", *more)), seen
