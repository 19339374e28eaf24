"""A shard built from its columns (reading.py), in a block as large as its residents need.

Columns come from outside, and kernels look at no bounds: whatever a kernel will use as a place, a count or an order is
checked here first, in whole columns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from windrow.errors import SnapshotError
from windrow.kernels import layout as at
from windrow.kernels import live_columns
from windrow.kernels.hashing import mix_words
from windrow.kernels.live_columns import Residents
from windrow.state import block, room
from windrow.state.auto.choices import CHOICES
from windrow.state.auto.samples import Sample
from windrow.state.auto.trials import STATE, Trials
from windrow.state.coding_numbers import ordered_codes
from windrow.state.parts import Capacity, parts, view
from windrow.state.plan import Plan
from windrow.state.probe_orders import Route, first_route
from windrow.state.shard import Shard
from windrow.state.snapshot import checks
from windrow.state.snapshot.narrow import Columns
from windrow.state.snapshot.reading import HEAD, LINE, fields_of, kind_of, learned_yet, lines_of, optional_fields

_NOTHING, _ZERO = np.zeros(0), np.zeros(1)
_TRIAL = tuple(zip(("whole", "floats"), STATE, (np.int64, np.float64), strict=True))


def restored(
    plan: Plan, emit: bool, columns: Columns, known: Sequence[Mapping[str, np.ndarray]], fork: bool = False
) -> Shard:
    """A shard of a plan from its columns and what the owner knows; raises SnapshotError where they do not fit."""
    return _Building(plan, emit, columns, known, fork).shard


class _Building:
    """A shard while it is built from columns. Everything is checked before a kernel sees it."""

    def __init__(
        self, plan: Plan, emit: bool, columns: Columns, known: Sequence[Mapping[str, np.ndarray]], fork: bool
    ) -> None:
        self.plan, self.columns, self.known = plan, columns, known
        self.read: set[str] = set()
        self.sizes = [len(self._get(f"{s}.seq")) for s in range(plan.streams)]
        self.first = [0, *np.cumsum(self.sizes).tolist()]
        keys = self._get("keys", plan.directories)
        _check(bool(((keys >= 0) & (keys <= self.first[-1])).all()), "keys")
        self.idle = self._idle()
        capacity = self._capacity([int(n) + len(idle) for n, idle in zip(keys, self.idle, strict=True)])
        oracle = self._oracle()
        tables = self._tables(capacity, len(oracle))
        words = block.start(plan, self._route(), emit, capacity, len(oracle))
        self.shard = Shard(plan, emit, words)
        self._fixed(words, fork)
        self._write_tables(words, tables, oracle)
        live_columns.clear_tables(words)
        self._all_residents(words)
        self._keys(words)
        for ix, (stream, column) in enumerate(plan.indexed()):
            self._index(words, ix, stream, column)
        self._order(words)
        if self.shard.trials is not None:
            self._trial(self.shard.trials, fork)
        _check(self.read == set(columns), min(set(columns) - self.read, default=""))

    def _trial(self, trials: Trials, fork: bool) -> None:
        """What the rule AUTO is trying; a fork has nothing of the kind."""
        if fork:
            self.shard.trials = None
            return
        try:
            whole, floats = (self._get(f"trial.{n}", k, t) for n, k, t in _TRIAL)
            trying = trials.resume(whole, floats, self._get("trial.popular"))
        except ValueError as error:
            raise SnapshotError.impossible("its trial cannot be what it says") from error
        trials.forks = self._forks(trials.sample) if trying else []
        _check(not trying or trials.forks[trials.choice] is not None, "forks")

    def _forks(self, sample: Sample) -> list[Shard | None]:
        """The forks of a sample, one for each choice that is tried."""
        caps = self._get("trial.caps", 2 * self.plan.pools)
        _check(bool(((caps >= 1) & (caps <= at.HIGH)).all()), "trial.caps")
        rows, size = np.split(caps, 2)
        plan = self.plan.for_sample(rows, size, sample.idle_limit(self.plan))
        found: list[Shard | None] = []
        nothing_known = [dict[str, np.ndarray]()] * self.plan.streams
        for k in range(len(CHOICES)):
            start = f"fork{k}."
            mine = {n.removeprefix(start): column for n, column in self.columns.items() if n.startswith(start)}
            self.read.update(start + name for name in mine)
            found.append(restored(plan, False, mine, nothing_known, fork=True) if mine else None)
        return found

    def _get(self, name: str, size: int | None = None, kind: type = np.int64) -> np.ndarray:
        """A column that must be there."""
        column = self.columns.get(name)
        _check(column is not None and column.dtype == kind and size in (None, len(column)), name)
        assert column is not None
        self.read.add(name)
        return column

    def _idle(self) -> list[np.ndarray]:
        if self.plan.learning.kind != at.STAT_RUNNING:
            return [np.zeros(0, np.int64)] * self.plan.directories
        found = [self._get(f"d{d}.idle") for d in range(self.plan.directories)]
        for codes in found:
            _check(bool((codes[1:] > codes[:-1]).all()), "idle")
        return found

    def _capacity(self, keys: list[int]) -> Capacity:
        """Room for what there is and a little more."""
        most = max((self.sizes[stream] for stream, _ in self.plan.indexed()), default=0)
        begun = self._get("head", len(HEAD))[HEAD.index(at.Head.begun)]
        return replace(room.enough(self.plan, self.first[-1], max(keys, default=0), most), begun=int(begun != 0))

    def _route(self) -> Route:
        n = self.plan.streams
        if n == 2:
            return first_route(self.plan)
        order = self._get("order", self.plan.routes * (n - 1)).reshape(-1, n - 1)
        lines = tuple(tuple(s for s in line if s != at.NONE) for line in order.tolist())
        for k, line in enumerate(lines):
            streams = self.plan.members[k // n]
            _check(sorted([k % n, *line]) == sorted(streams) if k % n in streams else not line, "order")
            _check(order[k, : len(line)].tolist() == list(line), "order")
        _check(self.plan.probe_order in (None, lines), "order")
        return first_route(replace(self.plan, probe_order=lines))

    def _fixed(self, words: np.ndarray, fork: bool) -> None:
        """Head and lines; nothing is forked before the policy has begun."""
        words[HEAD] = self._get("head", len(HEAD))
        block.write_growth(words)
        block.write_begun(words, self.plan, int(words[at.Head.begun]))
        _check(bool(words[at.Head.begun]) or not (fork or any(map(len, self.idle))), "idle")
        lines = view(words, at.Head.streams_at, self.plan.streams, at.STREAM_SIZE)
        lines[:, LINE] = self._get("lines", self.plan.streams * len(LINE)).reshape(self.plan.streams, len(LINE))
        _check(checks.head(words, self.plan), "head")
        _check(checks.lines(words, lines), "lines")

    def _tables(self, capacity: Capacity, oracle: int) -> dict[int, np.ndarray]:
        """The tables whose size the query fixes, by word: looked at before anything of their size is made."""
        found = {}
        for sized in parts(self.plan, capacity, oracle):
            name, outer, inner = sized.part.saved, sized.outer, sized.inner
            if name and outer * inner:
                found[sized.word] = self._get(name, outer * inner, sized.part.kind).reshape(outer, inner)
                _check(checks.table(name, found[sized.word], self.plan), name)
        return found

    def _write_tables(self, words: np.ndarray, tables: dict[int, np.ndarray], oracle: np.ndarray) -> None:
        for word, table in tables.items():
            lines = view(words, word, *table.shape)
            if word == at.Head.hists_at:
                table.view(np.int64)[:, at.Histogram.is_float] = lines[:, at.Histogram.is_float]  # the query says that
            lines[:] = table.view(np.int64)
        if len(oracle):
            view(words, at.Head.oracle_at, *oracle.shape)[:] = oracle
            view(words, at.Head.oracle_start_at, 1, self.plan.directories + 1)[0] = self._get("oracle.starts")
        _check(checks.tally(tables[at.Head.tally_at], checks.most_matches(words, self.plan)), "tally")
        if at.Head.credit_at in tables:
            self.most_credit = checks.most_credit(words, self.plan)
            _check(checks.credit(tables[at.Head.credit_at], self.most_credit, int(words[at.Head.seq])), "credit")
        tallies = self.shard.matched_by_join.sum() if self.plan.joins is not None else words[at.Head.matched]
        sampled = words[at.Head.sample_share] != 0
        more = sampled or self.plan.releases  # probes that found what is missed are counted, too
        _check(tallies == words[at.Head.matched] or (more and tallies > words[at.Head.matched]), "tally")
        _check(sampled or not tables[at.Head.sample_at].any(), "sample")

    def _oracle(self) -> np.ndarray:
        """The oracle's lines, [line, word]."""
        n, rows = self.plan.streams, len(self.columns.get("oracle.code", _NOTHING))
        found = np.empty((rows, 1 + 2 * n), np.int64)
        if rows == 0 or self.plan.learning.kind != at.STAT_ORACLE:
            return found[:0]
        found[:, 0] = self._get("oracle.code", rows)
        counts = [self._get(f"oracle.{j}", rows, np.float64) for j in range(1, 1 + 2 * n)]
        for j, column in enumerate(counts, 1):
            found[:, j] = column.view(np.int64)
        starts = self._get("oracle.starts", self.plan.directories + 1)
        _check(checks.oracle(found[:, 0], starts, counts[:n]), "oracle.starts")
        return found

    def _column(self, stream: int, name: str, kind: type = np.int64) -> np.ndarray:
        """A column of residents, kept or known."""
        if name in self.known[stream]:
            column = self.known[stream][name]
            _check(len(column) == self.sizes[stream], f"{stream}.{name}")
            return np.require(column, kind, ["C", "W"])
        return self._get(f"{stream}.{name}", self.sizes[stream], kind)

    def _all_residents(self, words: np.ndarray) -> None:
        seqs = [self._column(s, "seq") for s in range(self.plan.streams)]
        _check(checks.all_different(seqs, words), "seq")
        codes = np.empty((self.plan.directories, int(words[at.Head.key_cap])), np.int64)
        for s in range(self.plan.streams):
            self._residents(words, s, codes)
        pools = view(words, at.Head.pools_at, self.plan.pools, at.POOL_SIZE)
        used, caps = pools[:, [at.Pool.used_rows, at.Pool.used_bytes]], pools[:, [at.Pool.cap_rows, at.Pool.cap_bytes]]
        peaks = words[[at.Head.peak_rows, at.Head.peak_bytes]]  # noted whenever something was shed, or could have been
        _check(bool((used <= caps).all()) and bool((used.sum(axis=0) <= peaks).all()), "cost")

    def _residents(self, words: np.ndarray, stream: int, known_codes: np.ndarray) -> None:
        plan, size = self.plan, self.sizes[stream]
        time, seq, cost = (self._column(stream, name) for name in ("time", "seq", "cost"))
        self._check_residents(words, stream, time, seq, cost)
        codes = np.zeros((plan.links, size if plan.links > 1 else 0), np.int64)
        for link, d in enumerate(plan.classes[stream]):
            if d >= 0:
                code = self._column(stream, f"code{link}")
                code = code if f"code{link}" in self.known[stream] else _mixed(code)
                codes = code.reshape(1, size) if plan.links == 1 else codes
                codes[link] = code
        numbers = np.zeros((plan.numbers.shape[1], size), np.int64)
        for column, kind in enumerate(plan.numbers[stream]):
            if kind >= 0:
                numbers[column] = self._column(stream, f"number{column}")
        if plan.joins is not None:
            _check(checks.joins_of_rows(numbers[0], stream, plan), f"{stream}.number0")
        fits = live_columns.add_residents(words, stream, Residents(time, seq, cost, codes, numbers), known_codes)
        _check(fits, "keys")
        self._more_of_residents(words, stream)

    def _more_of_residents(self, words: np.ndarray, stream: int) -> None:
        """The fields that not every query has; and beside another join, when that has lost them."""
        plan, fields, first = self.plan, fields_of(self.plan, stream), self.first[stream]
        for name in (f"before{k}" for k in range(plan.befores)):
            live_columns.write_slots(words, first, fields[name], self._column(stream, name))
        for value in optional_fields(plan):
            values = self._column(stream, value.name, np.int64 if value.kind is int else np.float64)
            if value.name == "score" and plan.credited and plan.by_row:
                _check(checks.credits_of(values, _ZERO, self.most_credit), f"{stream}.score")
            live_columns.write_slots(words, first, fields[value.name], values.view(np.int64))
        if plan.releases:
            status = self._column(stream, "status")
            _check(bool(((status >= 0) & (status <= at.VOID_SPARED)).all()), f"{stream}.status")
            rows = np.where(is_bare(plan, status, self._column(stream, "cost")), at.BARE, np.arange(len(status)))
            live_columns.write_slots(words, first, at.Slot.row, rows)
        if plan.beside:
            departed = self._column(stream, "departed")
            _check(checks.departures(departed, words), f"{stream}.departed")
            live_columns.write_slots(words, first, fields["departed"], departed)

    def _check_residents(self, words: np.ndarray, s: int, time: np.ndarray, seq: np.ndarray, cost: np.ndarray) -> None:
        """All numbers of residents can be what they stand for."""
        if self.sizes[s] == 0:
            return
        line = view(words, at.Head.streams_at, self.plan.streams, at.STREAM_SIZE)[s]
        _check(checks.ages_in_order(line, time, seq, int(words[at.Head.clock])), f"{s}.time")
        _check(cost.min() >= 0 and cost.max() < 2**32, f"{s}.cost")
        fields = fields_of(self.plan, s)
        if "rank" in fields:
            _check(checks.ranks(line, self._column(s, "rank")), f"{s}.rank")
        if "gain" in fields:
            _check(not np.isnan(self._column(s, "gain", np.float64)).any(), f"{s}.gain")

    def _keys(self, words: np.ndarray) -> None:
        for d in range(self.plan.directories):
            line = view(words, at.Head.dirs_at, self.plan.directories, at.DIR_SIZE)[d]
            _check(line[at.Directory.top] == self._get("keys")[d], "keys")
            _check(live_columns.add_idle(words, d, _mixed(self.idle[d])), f"d{d}.idle")
            found = {
                name: self._get(f"d{d}.{name}", int(line[at.Directory.top]), kind_of(name))
                for name in learned_yet(self.plan, words)
            }
            self._check_learned(words, d, found)
            for name, word in learned_yet(self.plan, words).items():
                live_columns.write_keys(words, d, word, found[name].view(np.int64))

    def _check_learned(self, words: np.ndarray, d: int, found: dict[str, np.ndarray]) -> None:
        """Counts of keys are counts; their worths may be anything, as values may."""
        counts = [f"freq{s}" for s in range(self.plan.streams)] + [f"brief{s}" for s in range(self.plan.streams)]
        _check(all(checks.frequencies(found[name]) for name in counts if name in found), f"d{d}.freq")
        for s in range(self.plan.streams) if self.plan.credits_by_key else ():
            keys = np.arange(len(found[f"freq{s}"]))
            residents = live_columns.read_keys(words, d, keys, at.chain_word(s, at.Chain.count))
            fine = checks.gained(found[f"freq{s}"], found[f"filed{s}"], residents, int(words[at.Head.seq]))
            _check(fine, f"d{d}.filed{s}")
            slots = np.arange(self.first[s], self.first[s + 1])
            mine = live_columns.read_slots(words, slots, np.array([at.LINK0 + at.Link.key]))[0]
            base, gained = self._column(s, "score", np.float64), found[f"freq{s}"][mine]
            _check(checks.credits_of(base, gained, self.most_credit), f"{s}.score")

    def _index(self, words: np.ndarray, ix: int, stream: int, column: int) -> None:
        numbers = self._column(stream, f"number{column}")
        numbers = ordered_codes(numbers, "float" if self.plan.numbers[stream, column] else "int")
        order = np.lexsort((self._column(stream, "seq"), numbers))
        live_columns.load_index(words, ix, numbers[order], self.first[stream] + order)

    def _order(self, words: np.ndarray) -> None:
        plan = self.plan
        if plan.keeps("dense") and words[at.Head.begun]:
            for pool in range(plan.pools):
                dense = self._get(f"p{pool}.dense")
                mine = [
                    np.arange(self.first[s], self.first[s + 1]) for s in range(plan.streams) if self._pool(s) == pool
                ]
                _check(np.array_equal(np.sort(dense), np.concatenate(mine)), f"p{pool}.dense")
                live_columns.write_dense(words, pool, dense)
        if plan.ranked:
            self._leaves(words)

    def _pool(self, stream: int) -> int:
        return int(self.plan.windows[stream, at.Stream.pool - at.Stream.reach])

    def _leaves(self, words: np.ndarray) -> None:
        size, lines = (
            self.first[-1] if self.plan.by_row else None,
            lines_of(self.plan) if words[at.Head.ranking] else (),
        )
        kept = {name: self._get(name, size, np.float64) for name in lines}
        _check(all(checks.leaves(column) for column in kept.values()), "leaf")
        ends, turn = kept.get("leaf.ends", _NOTHING), kept.get("leaf.turn", _NOTHING)
        _check(len({len(column) for column in kept.values()}) <= 1, "leaf")
        count = live_columns.finish(self.plan.hooks_when(int(words[at.Head.begun])), words, ends, turn)
        _check(all(len(column) == count for column in kept.values()), "leaf")


def is_bare(plan: Plan, status: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """Which residents are without payload, and charged so: No rows; where these are demoted, only some of them."""
    return (status >= at.NO) & (cost == plan.row_bytes()) if plan.demotes else status >= at.NO


def _check(fine: bool, name: str) -> None:
    if not fine:
        raise SnapshotError.impossible(f"its column {name!r} cannot be what it says")


def _mixed(values: np.ndarray) -> np.ndarray:
    """Codes of the values that stand for them in a snapshot."""
    out = np.empty(len(values), np.uint64)
    mix_words(values.view(np.uint64), out)
    return out.view(np.int64)
