"""A shard as columns: what of its block is state, and everything else is left out.

State is what cannot be computed from something else that is kept: counters and clocks, fixed tables (histograms,
sketch, oracle, tallies), the residents' times, sequence numbers and costs, frequencies of keys, scores that were taken
earlier, the order of RAND's dense list. `restoring.py` builds lists, hash tables, tournaments and indexes again, with
codes, numbers and times that the owner can compute from payload (`known`). Nothing depends on which slots and
keys things happened to have: shards of equal state give equal columns.

Columns are named `<stream>.time`, `d<directory>.freq0`, `p<pool>.dense`; a resident's place in its stream is its age.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from windrow.kernels import layout as at
from windrow.kernels import live_columns
from windrow.state import block
from windrow.state.block import view
from windrow.state.plan import Plan
from windrow.state.shard import Shard

RISING = frozenset({"time", "seq", "rank", "idle"})

# Of the head and of a stream's line everything that changes is state, but for what is computed again.
_HEAD_AGAIN = {at.CURSOR, at.FREE, at.FREE_COUNT, at.TOP, at.MARKED, at.GONE, at.GONE_COUNT}
_LINE_AGAIN = {at.ROWS, at.BYTES, at.OLDEST, at.NEWEST, at.HINT}
HEAD = [w for w in range(at.BY_ROW) if w not in _HEAD_AGAIN] + [at.SAMPLE_SHARE, at.SAMPLE_WEIGHT]
LINE = [w for w in range(at.REACH) if w not in _LINE_AGAIN]
TABLES = {"tally": at.TALLY_AT, "hists": at.HISTS_AT, "means": at.MEANS_AT, "life": at.LIFE_AT,
          "sample": at.SAMPLE_AT, "sketch": at.SKETCH_AT, "credit": at.CREDIT_AT, "trials": at.TRIALS_AT,
          "ages": at.AGES_AT}  # fmt: skip
INTEGERS = {"tally", "credit"}
TRIAL = ("whole", "floats", "popular", "caps")  # of the rule AUTO, beside its forks


def layout_digest() -> str:
    """A digest of what the columns mean: it differs between versions that would misread each other."""
    sizes = [at.HIST_SIZE, at.LIFE_BINS, at.GROUPS, at.STREAM_BITS, at.REACH]
    facts = [at.LOW, HEAD, LINE, list(TABLES), TRIAL, *sizes]
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


@dataclass(frozen=True, eq=False)
class Saved:
    """A shard's columns, and the slots of each stream's residents in their order."""

    columns: dict[str, np.ndarray]
    slots: list[np.ndarray]


def saved(shard: Shard, known: Sequence[frozenset[str]]) -> Saved:
    """The columns of a shard, without those of each stream's that the owner knows."""
    plan, words = shard.plan, shard.words
    columns = {"head": words[HEAD]}
    columns["lines"] = view(words, at.STREAMS_AT, plan.streams, at.STREAM_SIZE)[:, LINE].ravel()
    if plan.streams > 2:
        columns["order"] = view(words, at.ORDER_AT, plan.routes, plan.streams - 1).ravel().copy()
    columns |= _tables(shard)
    together = live_columns.by_age(words)
    slots = np.split(together, np.cumsum(shard.stream_counter(at.ROWS))[:-1])
    for s in range(plan.streams):
        columns |= {f"{s}.{name}": column for name, column in _residents(shard, s, slots[s], known[s]).items()}
    positions = plan.positions()
    keys = [live_columns.keys_in_use(words, together, d, positions[:, d].copy()) for d in range(plan.directories)]
    columns |= _keys(shard, keys)
    columns |= _order(shard, together, keys)
    columns |= _trial(shard)
    return Saved(columns, slots)


def _tables(shard: Shard) -> dict[str, np.ndarray]:
    found = {}
    for part in block.parts(shard.plan, shard.capacity, int(shard.words[at.ORACLE_ROWS])):
        for name, word in TABLES.items():
            if part.word == word and part.outer * part.inner:
                table = view(shard.words, word, part.outer, part.inner).copy()
                if name == "hists":
                    table[:, at.H_FLOAT] = 0
                found[name] = table.ravel() if name in INTEGERS else table.ravel().view(np.float64)
    rows = int(shard.words[at.ORACLE_ROWS])
    if rows:
        width = 1 + 2 * shard.plan.streams
        lines = view(shard.words, at.ORACLE_AT, rows, width)
        found["oracle.code"] = lines[:, 0].copy()
        found |= {f"oracle.{j}": lines[:, j].copy().view(np.float64) for j in range(1, width)}
        found["oracle.starts"] = view(shard.words, at.ORACLE_START_AT, 1, shard.plan.directories + 1)[0].copy()
    return found


def _residents(shard: Shard, stream: int, slots: np.ndarray, known: frozenset[str]) -> dict[str, np.ndarray]:
    """One stream's columns."""
    plan, words = shard.plan, shard.words
    fields = {name: word for name, word in fields_of(plan, stream).items() if name not in known}
    read = live_columns.read_slots(words, slots, np.array(list(fields.values()), np.int64))
    found = dict(zip(fields, read, strict=True))
    found["cost"] = found["cost"] >> at.STREAM_BITS
    if plan.beside and not words.view(np.float64)[at.SAMPLE_SHARE]:
        found["departed"][:] = 0  # nothing is noted as long as all rows are stored
    for name in found:
        if name in ("gain", "score"):
            found[name] = found[name].view(np.float64)
    for link, d in enumerate(plan.classes[stream]):
        if d >= 0 and f"code{link}" not in known:
            found[f"code{link}"] = _unmixed(live_columns.read_codes(words, slots, int(d), link))
    return found


def fields_of(plan: Plan, stream: int) -> dict[str, int]:
    """The words of a slot that are state, by name."""
    offsets = plan.offsets()
    found = {"time": at.TIME, "seq": at.ARRIVED, "cost": at.COST}
    for column, kind in enumerate(plan.numbers[stream]):
        if kind >= 0:
            found[f"number{column}"] = offsets[at.VALS_OFF] + column
    if plan.beside:
        found["departed"] = at.ROW
    for name, word in (("rank", at.RANK_OFF), ("gain", at.GAIN_OFF), ("score", at.SCORE_OFF)):
        if offsets[word]:
            found[name] = offsets[word]
    return found


def learned(plan: Plan) -> dict[str, int]:
    """The words of a key's record that are state, by name: none where they follow from the oracle's table."""
    if plan.credits_by_key:
        gained = {f"freq{s}": at.PER_STREAM * s + at.FREQ for s in range(plan.streams)}
        return gained | {f"filed{s}": 1 + at.PER_STREAM * plan.streams + s for s in range(plan.streams)}
    if plan.learning.kind not in (at.STAT_RUNNING, at.STAT_SKETCH):
        return {}
    found = {f"freq{s}": at.PER_STREAM * s + at.FREQ for s in range(plan.streams)}
    if plan.value is not None:
        found |= {f"worth{s}": 1 + at.PER_STREAM * plan.streams + s for s in range(plan.streams)}
    if plan.keeps("recent"):
        first = 1 + (at.PER_STREAM + (plan.value is not None)) * plan.streams
        found |= {f"brief{k}": first + k for k in range(plan.key_words() - first)}
    return found


def _keys(shard: Shard, in_use: list[np.ndarray]) -> dict[str, np.ndarray]:
    """How many keys each directory has, those that only statistics keep, and frequencies."""
    found = {}
    for d, keys in enumerate(in_use):
        if shard.plan.learning.kind == at.STAT_RUNNING:
            idle = live_columns.keys_idle(shard.words, d)
            codes = _unmixed(live_columns.read_keys(shard.words, d, idle, at.CODE))
            order = np.argsort(codes)
            found[f"d{d}.idle"] = codes[order]
            keys = np.concatenate([keys, idle[order]])
        for name, word in learned(shard.plan).items():
            found[f"d{d}.{name}"] = live_columns.read_keys(shard.words, d, keys, word).view(np.float64)
    found["keys"] = np.array([len(keys) for keys in in_use], np.int64)
    return found


def _order(shard: Shard, slots: np.ndarray, keys: list[np.ndarray]) -> dict[str, np.ndarray]:
    """RAND's dense lists, and the lines of leaves where they depend on when they were taken."""
    plan, words, found = shard.plan, shard.words, {}
    if plan.keeps("dense"):
        place = np.empty(int(words[at.TOP]), np.int64)
        place[slots] = np.arange(len(slots))
        found = {f"p{pool}.dense": place[live_columns.read_dense(words, pool)] for pool in range(plan.pools)}
    for name, word in lines_of(plan).items() if words[at.RANKING] else ():
        leaves = live_columns.read_row_leaves(words, slots, word) if plan.by_row else None
        leaves = live_columns.read_key_leaves(words, keys[0], word) if leaves is None else leaves
        found[name] = leaves.view(np.float64)
    return found


def _trial(shard: Shard) -> dict[str, np.ndarray]:
    """What the rule AUTO is trying."""
    if shard.trials is None:
        return {}
    whole, floats = shard.trials.state()
    found = {"trial.whole": whole, "trial.floats": floats, "trial.popular": shard.trials.sample.popular}
    tried = {k: fork for k, fork in enumerate(shard.trials.forks) if fork is not None}
    if tried:
        plan = next(iter(tried.values())).plan
        found["trial.caps"] = np.array([plan.cap_rows, plan.cap_bytes], np.int64).ravel()
    for k, fork in tried.items():
        columns = saved(fork, [frozenset[str]()] * shard.plan.streams).columns
        found |= {f"fork{k}.{name}": column for name, column in columns.items()}
    return found


def lines_of(plan: Plan) -> dict[str, int]:
    """The words of a leaf that are state, by name."""
    found = {}
    if plan.drifting and plan.counts_rows:
        found["leaf.ends"] = at.ENDS
    if plan.keeps("lifetimes"):
        found["leaf.turn"] = at.TURN
    return found


def _unmixed(codes: np.ndarray) -> np.ndarray:
    out = np.empty(len(codes), np.uint64)
    live_columns.unmix_words(codes.view(np.uint64), out)
    return out.view(np.int64)
