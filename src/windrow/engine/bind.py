"""Binding: a query and its streams' schemas become a plan for a shard and a recipe for batches."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pyarrow as pa

from windrow.engine.compile_notice import announce
from windrow.engine.equality import Directory, directories
from windrow.engine.outputs import OutputColumn, outputs
from windrow.engine.ranges import Number, Numbers, numbers
from windrow.engine.releasing import Releasing, add_directories, add_numbers, candidates
from windrow.errors import KeyTypeError, MemoryTooSmall, SpecError, UnknownColumn
from windrow.kernels import layout as at
from windrow.kernels.hooks import hooks
from windrow.kernels.layout import ENDLESS, HIGH, LOW, NONE
from windrow.policies import Age, Auto, Given, GreedyDual, Policy
from windrow.spec import Memory, Monitored, Query, Stream, split_reference
from windrow.spec.bytesize import format_bytes
from windrow.state.auto.samples import rows_in_fork
from windrow.state.auto.trials import FORKS, LEAST_ROWS
from windrow.state.block import fixed_bytes
from windrow.state.coding import (
    TimeDomain,
    as_word,
    duration_in_units,
    family,
    moment,
    time_domain,
    value_type,
)
from windrow.state.parts import judges
from windrow.state.plan import EXACT, SIGNED, Joins, Learning, Plan, Shedding
from windrow.statistics import Decayed, Oracle, Running, Sketch, Statistic

STATISTICS_SHARE = 8  # one part in so many of a budget in bytes is for keys that only statistics keep
RECALL_SHARE = 16  # and one in so many for the estimate of recall
SMALL_SAMPLE_BYTES = 1 << 16
TRIAL_SHARE = 32  # and one in so many for the trials of the policy auto
PROSPECT_SHARE = 16  # of which prospects may take one part in so many, or there are none


@dataclass(frozen=True)
class Binding:
    """Everything that follows from a query and its schemas."""

    query: Query
    schemas: dict[str, pa.Schema]
    domain: TimeDomain
    directories: tuple[Directory, ...]
    numbers: tuple[tuple[Number, ...], ...]
    results: tuple[tuple[OutputColumn, ...], ...]  # the output columns of each join
    payload: tuple[tuple[str, ...], ...]
    plan: Plan
    recall_bytes: int
    keeps_payload: bool = True
    oracle_rows: int = 0
    code_mask: int = 2**64 - 1  # tests narrow it to force collisions of codes

    @property
    def outputs(self) -> tuple[OutputColumn, ...]:
        """The output columns of the only join."""
        (columns,) = self.results
        return columns

    def payload_schema(self, stream: int) -> pa.Schema:
        """The columns that a stream's residents keep."""
        schema = self.schemas[self.query.names[stream]]
        return pa.schema([schema.field(column) for column in self.payload[stream]])

    def with_whole_rows(self) -> "Binding":
        """The same join with all columns of residents kept."""
        return replace(self, payload=tuple(tuple(self.schemas[name].names) for name in self.query.names))

    def with_oracle(self, rows: int) -> "Binding":
        """The same join with the oracle's table of so many rows charged to the budget."""
        return replace(self, oracle_rows=rows).rebound(self.query) if rows else self

    def rebound(self, query: Query) -> "Binding":
        """The same join with other windows, another budget or another policy."""
        _check_columns(query, self.schemas)
        windows = _windows(query, self.domain)
        bare = replace(self.plan, windows=windows).without_cap(pooled=False)
        oracle_rows = self.oracle_rows if isinstance(getattr(query.policy, "statistics", None), Oracle) else 0
        plan, recall_bytes = _with_budget(bare, query, oracle_rows)
        announce(query, False, plan.is_pair)  # a policy begins when something changes
        return replace(self, query=query, plan=plan, recall_bytes=recall_bytes, oracle_rows=oracle_rows)


def bind(query: Query, schemas: dict[str, pa.Schema], own_clock: bool = True) -> Binding:
    """Check a query against its streams' schemas and plan it; the last ones are remembered."""
    binding = _bound(_Asked(query, schemas, own_clock))
    announce(query, binding.plan.defers, binding.plan.is_pair)
    return binding


class _Asked:
    """What is to be bound; the same if it is the very same query, over the same schemas to the byte.

    Queries that are equal can differ in what they were written as, so equality is not enough.
    """

    def __init__(self, query: Query, schemas: dict[str, pa.Schema], own_clock: bool) -> None:
        self.query, self.schemas, self.own_clock = query, dict(schemas), own_clock
        types = tuple((name, schema.serialize().to_pybytes()) for name, schema in schemas.items())
        self._known_by = id(query), own_clock, types

    def __hash__(self) -> int:
        return hash(self._known_by)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Asked) and self._known_by == other._known_by


@lru_cache(maxsize=32)  # shards are restored by turns: on Spark a worker has some of one query, with every micro-batch
def _bound(asked: _Asked) -> Binding:
    query, schemas, own_clock = asked.query, asked.schemas, asked.own_clock
    _check_columns(query, schemas)
    untimed = any(stream.time is None for stream in query.streams)
    types = [None if untimed else schemas[s.name].field(s.time).type for s in query.streams]
    domain = time_domain(types, [f"{s.name}.{s.time}" for s in query.streams])
    dirs = directories(query, schemas)
    monitored = query.constraints if isinstance(query.constraints, Monitored) else None
    constraints = candidates(query, schemas, dirs) if monitored else query.constraints or ()
    assert isinstance(constraints, tuple)
    dirs = add_directories(dirs, query, constraints)
    nums = numbers(query, schemas)
    add_numbers(nums, query, constraints, schemas)
    for stream, spec in enumerate(query.streams):
        if spec.sign is not None:
            _check_identity(spec, schemas[spec.name])
            nums.add_identity(stream)
    results = tuple(outputs(query, schemas, join) for join in query.joins)
    signed = any(stream.sign is not None for stream in query.streams)
    plan = Plan(
        rule=SIGNED if signed else EXACT,
        classes=_classes(len(query.streams), dirs),
        directories=len(dirs),
        numbers=nums.matrix(),
        preds=_predicates(dirs, nums),
        windows=_windows(query, domain),
        value=query.value.combine if query.value else None,
        seed=query.seed,
        probe_order=_probe_order(query),
        joins=_joins(query, dirs, nums),
        own_clock=own_clock,
        release=Releasing(query, constraints, dirs, nums, domain, monitored).plan() if constraints else None,
        demotes=bool(constraints) and query.demotes is not None and (monitored is None or monitored.release),
    )
    plan, recall_bytes = _with_budget(plan, query)
    return Binding(
        query, schemas, domain, tuple(dirs), tuple(map(tuple, nums.columns)), results,
        _payload(query, schemas, dirs, results), plan, recall_bytes,
    )  # fmt: skip


def _check_columns(query: Query, schemas: dict[str, pa.Schema]) -> None:
    """Every column that the query names is there."""
    refs = [(*split_reference(ref), str(p)) for p in query.predicates for ref in p.columns]
    refs += [(s.name, s.time, "time") for s in query.streams if s.time is not None]
    refs += [(s.name, f.column, f"the filter {f}") for s in query.streams for f in s.where]
    refs += [(s.name, s.sign, "sign") for s in query.streams if s.sign is not None]
    refs += [(s.name, column, "identity") for s in query.streams for column in s.identity or ()]
    if query.value is not None:
        refs += [(stream, column, "value") for stream, column in query.value.columns]
    if isinstance(query.policy, Given) and query.memory is not None:
        if query.value is not None:
            raise SpecError("policy 'given' goes by a column of its own: leave value= out")
        refs += [(name, query.policy.column, "policy 'given'") for name in query.names]
    for stream, column, where in refs:
        if column not in schemas[stream].names:
            raise UnknownColumn.of(column, schemas[stream].names, f"{where}: stream {stream!r}")


def _check_identity(spec: Stream, schema: pa.Schema) -> None:
    """The columns by which deletions name rows hold values that can be compared."""
    for name in spec.identified_by(schema.names):
        if family(value_type(schema.field(name).type)) is None:
            told = "name the columns that tell rows apart: identity=" if spec.identity is None else "use another column"
            raise KeyTypeError(
                f"stream {spec.name!r}: deletions name their rows by {name!r}, and values of type "
                f"{schema.field(name).type} cannot be compared; {told}"
            )


def _classes(streams: int, dirs: list[Directory]) -> np.ndarray:
    """[stream, link]: the directories of each stream."""
    mine = [[d for d, directory in enumerate(dirs) if s in directory.columns] for s in range(streams)]
    found = np.full((streams, max(map(len, mine), default=0)), NONE, np.int64)
    for s, members in enumerate(mine):
        found[s, : len(members)] = members
    return found


def _predicates(dirs: list[Directory], nums: Numbers) -> np.ndarray:
    lines = []
    for d, directory in enumerate(dirs):
        for left, right in directory.pairs if directory.probed else ():
            line = np.zeros(at.PRED_SIZE, np.int64)
            line[[at.Predicate.left, at.Predicate.right, at.Predicate.left_col]] = left, right, d
            lines.append(line)
    if len(lines) + len(nums.preds) > at.INDEX_STRIDE:
        raise SpecError(
            f"the query compares {len(lines) + len(nums.preds):,} pairs of columns, with every two streams of a common "
            f"key, and one query compares at most {at.INDEX_STRIDE:,}: join fewer streams, or use several queries"
        )
    return np.array([*lines, *nums.preds], np.int64).reshape(-1, at.PRED_SIZE)


def _joins(query: Query, dirs: list[Directory], nums: Numbers) -> Joins | None:
    """Which of several joins everything belongs to."""
    if len(query.joins) == 1:
        return None
    return Joins(
        members=tuple(tuple(map(query.names.index, join.streams(query.names))) for join in query.joins),
        directories=tuple(directory.join for directory in dirs),
        preds=(*(directory.join for directory in dirs for _ in directory.pairs), *nums.pred_joins),
        numbers=nums.joins(),
    )


def _payload(
    query: Query, schemas: dict[str, pa.Schema], dirs: list[Directory], results: tuple[tuple[OutputColumn, ...], ...]
) -> tuple[tuple[str, ...], ...]:
    """Per stream, the columns to keep: those of the outputs, and keys that are compared again."""
    keep: list[set[str]] = [
        {o.column for chosen in results for o in chosen if o.stream == s} for s in range(len(query.streams))
    ]
    for directory in dirs:
        if not directory.exact and directory.probed:
            for s, columns in directory.columns.items():
                keep[s].update(columns)
    return tuple(tuple(c for c in schemas[name].names if c in keep[s]) for s, name in enumerate(query.names))


def _windows(query: Query, domain: TimeDomain) -> np.ndarray:
    """The words REACH to POOL of each stream's line."""
    found = np.zeros((len(query.streams), at.Stream.offset - at.Stream.reach), np.int64)
    for s, stream in enumerate(query.streams):
        patience = ENDLESS
        if query.patience is not None:
            patience = _units(query.patience, domain, "patience")
        found[s] = _window(stream, domain, patience, s if _is_split(query) else 0)
    return found


def _is_split(query: Query) -> bool:
    return query.memory is not None and query.memory.split is not None


def _units(duration: object, domain: TimeDomain, where: str) -> int:
    amount = duration_in_units(duration.amount, duration.unit, domain, where)  # type: ignore[attr-defined]
    return as_word(math.ceil(amount))


def _window(stream: Stream, domain: TimeDomain, patience: int, pool: int) -> list[int]:
    window, where = stream.window, f"the window of {stream.name!r}"
    reach, since, near, rows = ENDLESS, LOW, True, 0
    if window.kind == "time":
        size: Fraction = duration_in_units(window.size.amount, window.size.unit, domain, where)  # type: ignore[union-attr]
        reach = as_word(math.floor(size) if window.holds_far else math.ceil(size) - 1)
        near = window.holds_near
    elif window.kind == "rows":
        rows = int(window.size)  # type: ignore[arg-type]
    elif window.kind == "landmark":
        since = moment(window, domain, where)
    lateness = _units(stream.lateness, domain, f"the lateness of {stream.name!r}")
    return [reach, since, near, rows, lateness, patience, pool]


def _probe_order(query: Query) -> tuple[tuple[int, ...], ...] | None:
    if query.probe_order is None:
        return None
    return tuple(tuple(map(query.names.index, others)) for _, others in query.probe_order)


def _learning(statistic: Statistic | None) -> Learning:
    if isinstance(statistic, Running):
        return Learning(at.STAT_RUNNING)
    if isinstance(statistic, Decayed):
        return Learning(at.STAT_RUNNING, statistic.half_life)
    if isinstance(statistic, Sketch):
        return Learning(at.STAT_SKETCH, statistic.half_life, statistic.depth, statistic.width)
    if isinstance(statistic, Oracle):
        return Learning(at.STAT_ORACLE)
    return Learning()


def _shedding(policy: Policy) -> Shedding:
    if isinstance(policy, GreedyDual):
        starts = {"tuned": at.START_TUNED, "zero": at.START_ZERO, "top": at.START_TOP}
        gains = {2: at.GAIN_RANK, "none": at.GAIN_NONE, "top": at.GAIN_TOP}
        share = 0.0 if isinstance(policy.initial, str) else policy.initial
        start = starts.get(policy.initial, at.START_SHARE) if isinstance(policy.initial, str) else at.START_SHARE
        return Shedding(start, share, gains.get(policy.method, at.GAIN_ONE))
    if isinstance(policy, Age):
        return Shedding(age=policy.best_age or 0.0)
    return Shedding()


def check_is_known(memory: Memory | None) -> None:
    """Refuse a budget that only whole tables tell."""
    if memory is not None and memory.share is not None:
        raise SpecError(
            f"memory {memory} is a share of what the exact join needs, which is not known for streams that "
            "have not ended: give bytes or rows, or use windrow.join on whole tables"
        )


def _with_budget(plan: Plan, query: Query, oracle_rows: int = 0) -> tuple[Plan, int]:
    """The plan with policy, statistics and caps; and the bytes that the estimate of recall may use."""
    memory = query.memory
    if memory is None:
        return plan, 0
    check_is_known(memory)
    _check_lifetimes(plan, query)
    if query.on_full == "fail":  # nobody is ever chosen, so nothing needs to be known about anybody
        plan = replace(plan, fail_when_full=True)
    else:
        learning = _learning(Running() if isinstance(query.policy, Auto) else getattr(query.policy, "statistics", None))
        drop = at.UNBIASED if query.sample == "unbiased" else query.sample or 0.0
        plan = replace(plan, rule=query.policy.rule, learning=learning, shedding=_shedding(query.policy), drop=drop)
    if memory.rows is not None:
        return _row_budget(plan, memory.rows, memory.rows_by_pool(query.names))
    portions = memory.portions(query.names) or (1.0,)
    return _byte_budget(plan, memory, portions, oracle_rows)


def _row_budget(plan: Plan, rows: int, by_pool: tuple[int, ...]) -> tuple[Plan, int]:
    caps = tuple(min(cap, HIGH) for cap in by_pool)
    if min(caps) < 1:
        raise MemoryTooSmall(f"memory of {rows} rows leaves a stream without a single row: give more, or do not split")
    idle = min(max(1 << 16, 4 * rows), HIGH)
    plan = plan.budgeted(cap_rows=caps, cap_bytes=(HIGH,) * len(caps), idle_limit=idle)
    return plan, max(1 << 22, 256 * rows)


def _byte_budget(bare: Plan, memory: Memory, portions: tuple[float, ...], oracle_rows: int) -> tuple[Plan, int]:
    total = int(memory.bytes or 0)
    plan, learning = _with_prospects(bare, total), bare.learning
    fixed = fixed_bytes(plan, oracle_rows)
    idle = total // STATISTICS_SHARE if learning.kind == at.STAT_RUNNING else 0
    trial = _trial_bytes(plan, total)
    statistics = fixed + idle + trial
    recall = _recall_bytes(total)
    rest = total - statistics - recall
    caps = tuple(min(int(rest * p), HIGH) for p in portions)
    least = plan.row_bytes() + plan.links * plan.key_bytes()
    if min(caps) < least:
        raise MemoryTooSmall(
            f"memory of {format_bytes(total)} cannot hold one row: a row costs at least {least} bytes beside its "
            f"payload, and tables, statistics and the estimate of recall take {format_bytes(statistics + recall)}; "
            f"give at least {format_bytes(_enough(bare, least, portions, oracle_rows))}"
        )
    counts_keys = learning.kind == at.STAT_RUNNING and plan.directories > 0
    limit = idle // plan.key_bytes() if counts_keys else HIGH
    plan = plan.budgeted(cap_bytes=caps, cap_rows=(HIGH,) * len(caps), idle_limit=limit, fork_bytes=trial // FORKS)
    return plan.with_room(fixed + idle + sum(caps)), recall


def _with_prospects(plan: Plan, total: int) -> Plan:
    """The plan for a budget of so many bytes: in the smallest ones rows are worth more than prospects."""
    return replace(plan, prospects=PROSPECT_SHARE * _prospect_bytes(plan) <= total) if judges(plan) else plan


def _prospect_bytes(plan: Plan) -> int:
    return 8 * plan.streams * at.PR_SIZE if judges(plan) else 0


def _recall_bytes(total: int) -> int:
    """Bytes of a budget for the estimate of recall: a small part, but of small budgets enough for a sample."""
    return max(total // RECALL_SHARE, min(total // 4, SMALL_SAMPLE_BYTES))


def _trial_bytes(plan: Plan, total: int) -> int:
    """Bytes of a budget for the trials of `auto`: a small part; none where they would be too few to try anything."""
    if not plan.hooks.TRIES or not plan.common_key:
        return 0
    size, rows = total // TRIAL_SHARE + FORKS * _prospect_bytes(plan), total // 2 // plan.row_bytes()
    tried = plan.budgeted(fork_bytes=size // FORKS, idle_limit=total // STATISTICS_SHARE // plan.key_bytes())
    return size if rows_in_fork(tried, rows) >= LEAST_ROWS else 0


def _enough(bare: Plan, least: int, portions: tuple[float, ...], oracle_rows: int) -> int:
    """A budget with room for a row of every stream, in three digits, as it is told: a little more may be too little
    again, where trials or prospects begin or one more byte goes to each of the other parts."""
    counts, total = bare.learning.kind == at.STAT_RUNNING, _in_three_digits(least)
    while True:
        plan = _with_prospects(bare, total)
        fixed = fixed_bytes(plan, oracle_rows)
        rest = total - fixed - (total // STATISTICS_SHARE if counts else 0) - _recall_bytes(total)
        rest -= _trial_bytes(plan, total)
        short = least - min(int(rest * p) for p in portions)
        if short <= 0:
            return total
        total = _in_three_digits(total + math.ceil(short / min(portions)))


def _in_three_digits(size: int) -> int:
    """A size rounded up to what is told of it."""
    step = 10 ** max(len(str(size)) - 3, 0)
    return -(-size // step) * step


def _check_lifetimes(plan: Plan, query: Query) -> None:
    """LIFE compares remaining lifetimes, so all windows must end, and on one clock."""
    if not hooks(query.policy.rule).DRIFTING:
        return
    kinds = {stream.window.kind for stream in query.streams}
    if len(kinds) > 1 or not kinds <= {"time", "rows"}:
        raise SpecError(
            f"policy {query.policy.name!r} compares lifetimes, so windows must be all in time or all in rows, "
            f"got {', '.join(sorted(kinds))}: use 'prob'"
        )
