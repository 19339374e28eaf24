"""A shard built from its columns (compact.py), in a block as large as its residents need.

Columns come from outside, and kernels look at no bounds: whatever a kernel will use as a place, a count or an order is
checked here first, in whole columns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from windrow.errors import SnapshotError
from windrow.kernels import compact, credit, tuner
from windrow.kernels import layout as at
from windrow.kernels.compact import Residents
from windrow.kernels.hashing import mix_words
from windrow.state import block, room
from windrow.state.block import Capacity, view
from windrow.state.chooser import CHOICES, STATE, Chooser
from windrow.state.coding_numbers import ordered_codes
from windrow.state.compact import HEAD, INTEGERS, LINE, TABLES, fields_of, learned, lines_of
from windrow.state.graph import Route, route
from windrow.state.narrow import Columns
from windrow.state.plan import Plan
from windrow.state.shard import Shard

_NOTHING = np.zeros(0)
_TRIAL = tuple(zip(("whole", "floats"), STATE, (np.int64, np.float64), strict=True))


def restored(plan: Plan, emit: bool, columns: Columns, known: Sequence[Mapping[str, np.ndarray]]) -> Shard:
    """A shard of a plan from its columns and what the owner knows; raises SnapshotError where they do not fit."""
    return _Building(plan, emit, columns, known).shard


class _Building:
    """A shard while it is built from columns. Everything is checked before a kernel sees it."""

    def __init__(self, plan: Plan, emit: bool, columns: Columns, known: Sequence[Mapping[str, np.ndarray]]) -> None:
        self.plan, self.columns, self.known = plan, columns, known
        self.sizes = [len(self._get(f"{s}.seq")) for s in range(plan.streams)]
        self.first = [0, *np.cumsum(self.sizes).tolist()]
        keys = self._get("keys", plan.directories)
        _check(bool(((keys >= 0) & (keys <= self.first[-1])).all()), "keys")
        self.idle = self._idle()
        oracle = len(columns.get("oracle.code", _NOTHING))
        capacity = self._capacity([int(n) + len(idle) for n, idle in zip(keys, self.idle, strict=True)])
        words = block.start(plan, self._route(), emit, capacity, oracle)
        self.shard = Shard(plan, emit, words)
        self._fixed(words)
        self._tables(words, capacity, oracle)
        compact.clear_tables(words)
        for s in range(plan.streams):
            self._residents(words, s)
        self._keys(words)
        for ix, (stream, column) in enumerate(plan.indexed()):
            self._index(words, ix, stream, column)
        self._order(words)
        if self.shard.chooser is not None:
            self._trial(self.shard.chooser)

    def _trial(self, chooser: Chooser) -> None:
        """What the rule AUTO is trying; a fork has nothing of the kind."""
        if "trial.whole" not in self.columns:
            self.shard.chooser = None
            return
        try:
            samples = chooser.resume(*(self._get(f"trial.{n}", k, t) for n, k, t in _TRIAL))
        except ValueError as error:
            raise SnapshotError.impossible("its trial cannot be what it says") from error
        chooser.forks = [self._forks(g, chooser.share) for g in range(samples)]
        tried = {tuple(fork is not None for fork in forks) for forks in chooser.forks}
        _check(len(tried) <= 1 and all(those[chooser.choice] for those in tried), "forks")

    def _forks(self, sample: int, share: float) -> list[Shard | None]:
        """The forks of one sample of keys, one for each choice that is tried."""
        rows, size = np.split(self._get(f"trial.caps{sample}", 2 * self.plan.pools), 2)
        plan = self.plan.for_sample(rows, size, share)
        found: list[Shard | None] = []
        no_windows = [dict[str, np.ndarray]()] * self.plan.streams
        for k in range(len(CHOICES)):
            start = f"fork{sample}-{k}."
            mine = {n.removeprefix(start): column for n, column in self.columns.items() if n.startswith(start)}
            found.append(restored(plan, False, mine, no_windows) if mine else None)
        return found

    def _get(self, name: str, size: int | None = None, kind: type = np.int64) -> np.ndarray:
        """A column that must be there."""
        column = self.columns.get(name)
        _check(column is not None and column.dtype == kind and size in (None, len(column)), name)
        assert column is not None
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
        return room.enough(self.plan, self.first[-1], max(keys, default=0), most)

    def _route(self) -> Route:
        n = self.plan.streams
        if n == 2:
            return route(self.plan)
        order = self._get("order", self.plan.routes * (n - 1)).reshape(-1, n - 1)
        lines = tuple(tuple(s for s in line if s != at.NONE) for line in order.tolist())
        for k, line in enumerate(lines):
            streams = self.plan.members[k // n]
            _check(sorted([k % n, *line]) == sorted(streams) if k % n in streams else not line, "order")
            _check(order[k, : len(line)].tolist() == list(line), "order")
        return route(replace(self.plan, probe_order=lines))

    def _fixed(self, words: np.ndarray) -> None:
        """Head and lines."""
        words[HEAD] = self._get("head", len(HEAD))
        block.write_growth(words)
        lines = self._get("lines", self.plan.streams * len(LINE)).reshape(self.plan.streams, len(LINE))
        view(words, at.STREAMS_AT, self.plan.streams, at.STREAM_SIZE)[:, LINE] = lines
        _check(lines[:, LINE.index(at.LAST_TIME)].max() == words[at.CLOCK] and words[at.SEQ] >= 0, "head")
        counters = [k for k, word in enumerate(LINE) if word in (at.EXPIRED, at.SHED, at.SAMPLED, at.RANK)]
        _check(bool((lines[:, counters] >= 0).all()), "lines")
        _check(0 <= words[at.INITIAL] < at.TRIALS and 0 <= words[at.TRIAL] < tuner.ROUNDS * tuner.ROUND, "head")
        _check(0 <= words[at.CHOICE] < at.CHOICE_WORDS and 0 <= words[at.ARRIVALS] < at.HIGH, "head")
        floats = words.view(np.float64)
        _check(bool(floats[at.WEIGHT] > 0.0) and bool(np.isfinite(floats[at.WEIGHT])), "head")
        _check(bool(0.0 <= floats[at.MIX] < np.inf) and bool(floats[at.MIX_UNTIL] > 0.0), "head")

    def _tables(self, words: np.ndarray, capacity: Capacity, oracle: int) -> None:
        for part in block.parts(self.plan, capacity, oracle):
            for name, word in TABLES.items():
                if part.word == word and part.outer * part.inner:
                    kind = np.int64 if name in INTEGERS else np.float64
                    column = self._get(name, part.outer * part.inner, kind)
                    if name in CHECKS:
                        CHECKS[name](column.reshape(part.outer, part.inner))
                    if name == "hists":
                        column = self._histograms(words, column.reshape(part.outer, part.inner))
                    view(words, word, part.outer, part.inner)[:] = column.view(np.int64).reshape(part.outer, -1)
        if oracle:
            self._oracle(words, oracle)

    def _histograms(self, words: np.ndarray, hists: np.ndarray) -> np.ndarray:
        _check(bool(np.isfinite(hists).all()) and bool((hists[:, at.H_STEP] >= 0.0).all()), "hists")
        hists.view(np.int64)[:, at.H_FLOAT] = view(words, at.HISTS_AT, len(hists), at.HIST_SIZE)[:, at.H_FLOAT]
        return hists

    def _oracle(self, words: np.ndarray, rows: int) -> None:
        n, d = self.plan.streams, self.plan.directories
        lines = view(words, at.ORACLE_AT, rows, 1 + 2 * n)
        lines[:, 0] = self._get("oracle.code", rows)
        for j in range(1, 1 + 2 * n):
            lines[:, j] = self._get(f"oracle.{j}", rows, np.float64).view(np.int64)
        starts = self._get("oracle.starts", d + 1)
        _check(starts[0] == 0 and starts[-1] == rows and bool((np.diff(starts) >= 0).all()), "oracle.starts")
        view(words, at.ORACLE_START_AT, 1, d + 1)[0] = starts

    def _column(self, stream: int, name: str, kind: type = np.int64) -> np.ndarray:
        """A column of residents, kept or known."""
        if name in self.known[stream]:
            column = self.known[stream][name]
            _check(len(column) == self.sizes[stream], f"{stream}.{name}")
            return np.require(column, kind, ["C", "W"])
        return self._get(f"{stream}.{name}", self.sizes[stream], kind)

    def _residents(self, words: np.ndarray, stream: int) -> None:
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
        fits = compact.add_residents(words, stream, Residents(time, seq, cost, codes, numbers))
        _check(fits, "keys")
        for name in ("rank", "gain", "score", "left"):
            field = fields_of(plan, stream).get(name)
            if field is not None:
                values = self._column(stream, name, np.int64 if name in ("rank", "left") else np.float64)
                if name == "left":
                    _check(bool((values >= 0).all()), f"{stream}.left")
                if plan.rule == at.GREEDY_DUAL and name == "score":
                    _check_credits(values, f"{stream}.score")
                compact.write_slots(words, self.first[stream], field, values.view(np.int64))

    def _check_residents(self, words: np.ndarray, s: int, time: np.ndarray, seq: np.ndarray, cost: np.ndarray) -> None:
        """Residents are in the order of their age list, and all numbers can be what they stand for."""
        if self.sizes[s] == 0:
            return
        line = view(words, at.STREAMS_AT, self.plan.streams, at.STREAM_SIZE)[s]
        later = seq[1:] > seq[:-1]
        if line[at.LAST_ROWS] == 0:
            later = (time[1:] > time[:-1]) | ((time[1:] == time[:-1]) & later)
        _check(bool(later.all()) and seq.min() >= 0 and seq.max() < words[at.SEQ], f"{s}.seq")
        _check(time.min() > at.LOW and time.max() <= line[at.LAST_TIME], f"{s}.time")
        _check(cost.min() >= 0 and cost.max() < 2**32, f"{s}.cost")
        if "rank" in fields_of(self.plan, s):
            rank = self._column(s, "rank")
            _check(rank.min() >= 0 and rank.max() < max(line[at.RANK], 1), f"{s}.rank")

    def _keys(self, words: np.ndarray) -> None:
        for d in range(self.plan.directories):
            line = view(words, at.DIRS_AT, self.plan.directories, at.DIR_SIZE)[d]
            _check(line[at.KEY_TOP] == self._get("keys")[d], "keys")
            _check(compact.add_idle(words, d, _mixed(self.idle[d])), f"d{d}.idle")
            for name, word in learned(self.plan).items():
                freq = self._get(f"d{d}.{name}", int(line[at.KEY_TOP]), np.float64)
                if self.plan.credits_by_key:
                    _check_credits(freq, f"d{d}.{name}")
                compact.write_keys(words, d, word, freq.view(np.int64))

    def _index(self, words: np.ndarray, ix: int, stream: int, column: int) -> None:
        numbers = self._column(stream, f"number{column}")
        numbers = ordered_codes(numbers, "float" if self.plan.numbers[stream, column] else "int")
        order = np.lexsort((self._column(stream, "seq"), numbers))
        compact.load_index(words, ix, numbers[order], self.first[stream] + order)

    def _order(self, words: np.ndarray) -> None:
        plan = self.plan
        if plan.rule == at.RAND:
            for pool in range(plan.pools):
                dense = self._get(f"p{pool}.dense")
                mine = [
                    np.arange(self.first[s], self.first[s + 1]) for s in range(plan.streams) if self._pool(s) == pool
                ]
                _check(np.array_equal(np.sort(dense), np.concatenate(mine)), f"p{pool}.dense")
                compact.write_dense(words, pool, dense)
        if plan.ranked:
            self._leaves(words)

    def _pool(self, stream: int) -> int:
        return int(self.plan.windows[stream, at.POOL - at.REACH])

    def _leaves(self, words: np.ndarray) -> None:
        size = self.first[-1] if self.plan.by_row else None
        kept = {name: self._get(name, size, np.float64) for name in lines_of(self.plan)}
        ends, turn = kept.get("leaf.ends", _NOTHING), kept.get("leaf.turn", _NOTHING)
        if self.plan.rule == at.GREEDY_DUAL:
            credit.build(words)
        if self.plan.by_row:
            compact.write_row_leaves(words, ends, turn)
        else:
            _check(len({len(column) for column in kept.values()}) <= 1, "leaf")
            count = compact.write_key_leaves(words, ends, turn)
            _check(all(len(column) == count for column in kept.values()), "leaf")
        compact.decide(words)


def _check(fine: bool, name: str) -> None:
    if not fine:
        raise SnapshotError.impossible(f"its column {name!r} cannot be what it says")


def _check_credits(credits: np.ndarray, name: str) -> None:
    """Credits, and what they are the sum of, are numbers that levels can be computed from."""
    _check(bool((np.abs(credits) < 2.0**53).all()), name)


def _check_credit_lines(lines: np.ndarray) -> None:
    low, shift = lines[:, at.C_LOW], lines[:, at.C_SHIFT]
    _check(bool(((low >= 0) & (low < 2**53) & (shift >= 0) & (shift < 53)).all()), "credit")


def _check_trials(trials: np.ndarray) -> None:
    _check(bool((np.isfinite(trials) & (trials >= 0.0)).all()), "trials")


def _check_ages(ages: np.ndarray) -> None:
    limits = ages[:, at.A_LIMIT]
    _check(bool((np.isfinite(ages) & (ages >= 0.0)).all()) and bool(((limits > 0.0) & (limits <= 1.0)).all()), "ages")


CHECKS = {"credit": _check_credit_lines, "trials": _check_trials, "ages": _check_ages}


def _mixed(values: np.ndarray) -> np.ndarray:
    """Codes of the values that stand for them in a snapshot."""
    out = np.empty(len(values), np.uint64)
    mix_words(values.view(np.uint64), out)
    return out.view(np.int64)
