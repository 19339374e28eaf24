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
from functools import cache, lru_cache
from typing import Any

import numpy as np

from windrow.kernels import layout as at
from windrow.kernels import live_columns
from windrow.kernels.records import Word
from windrow.state.parts import PARTS, parts, view
from windrow.state.plan import Plan
from windrow.state.shard import Shard

_NOTHING = np.zeros(0, np.int64)
RISING = frozenset({"time", "seq", "rank", "idle"})

HEAD, LINE = at.Head.saved(), at.Stream.saved()
TABLES = {part.saved: part for part in PARTS if part.saved}
TRIAL = ("whole", "floats", "popular", "caps")  # of the rule AUTO, beside its forks


@cache
def layout_digest() -> str:
    """A digest of what the columns mean: it differs between versions that would misread each other."""
    records = [[value.name for value in record.words.values() if value.saved] for record in at.RECORDS]
    kept = [kept.name for kept in at.KEPT_OF_KEYS if kept.saved]
    sizes = [at.HIST_SIZE, at.LIFE_BINS, at.PR_SIZE, at.GROUPS, at.STREAM_BITS]
    facts = [at.LOW, records, kept, list(TABLES), TRIAL, *sizes]
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


@dataclass(frozen=True, eq=False)
class Saved:
    """A shard's columns, and the payload rows of each stream's residents in their order."""

    columns: dict[str, np.ndarray]
    rows: list[np.ndarray]


def saved(shard: Shard, known: Sequence[frozenset[str]]) -> Saved:
    """The columns of a shard, without those of each stream's that the owner knows."""
    plan, words = shard.plan, shard.words
    columns = {"head": words[HEAD]}
    columns["lines"] = view(words, at.Head.streams_at, plan.streams, at.STREAM_SIZE)[:, LINE].ravel()
    if plan.streams > 2:
        columns["order"] = view(words, at.Head.order_at, plan.routes, plan.streams - 1).ravel().copy()
    columns |= _tables(shard)
    together = live_columns.by_age(words)
    slots = np.split(together, np.cumsum(shard.stream_counter(at.Stream.rows))[:-1])
    named: list[list[np.ndarray]] = [[_NOTHING] for _ in range(plan.directories)]
    rows = []
    for s in range(plan.streams):
        read = _words_of(shard, s, slots[s], known[s])
        rows.append(read.pop("row"))
        for link, d in enumerate(plan.classes[s]):
            if d >= 0:
                named[d].append(read.pop(f"key{link}"))
        columns |= {f"{s}.{name}": column for name, column in _residents(shard, s, read).items()}
        columns |= {f"{s}.{name}": column for name, column in _codes(shard, s, named, known[s]).items()}
    tops = view(words, at.Head.dirs_at, plan.directories, at.DIR_SIZE)[:, at.Directory.top].tolist()
    keys = [live_columns.first_named(np.concatenate(n), top) for n, top in zip(named, tops, strict=True)]
    columns |= _keys(shard, keys)
    columns |= _order(shard, together, keys)
    columns |= _trial(shard)
    return Saved(columns, rows)


def _tables(shard: Shard) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    for sized in parts(shard.plan, shard.capacity, int(shard.words[at.Head.oracle_rows])):
        if sized.part.saved and sized.outer * sized.inner:
            table = view(shard.words, sized.word, sized.outer, sized.inner).copy()
            if sized.word == at.Head.hists_at:
                table[:, at.Histogram.is_float] = 0
            found[sized.part.saved] = table.ravel().view(sized.part.kind)
    rows = int(shard.words[at.Head.oracle_rows])
    if rows:
        width = 1 + 2 * shard.plan.streams
        lines = view(shard.words, at.Head.oracle_at, rows, width)
        found["oracle.code"] = lines[:, 0].copy()
        found |= {f"oracle.{j}": lines[:, j].copy().view(np.float64) for j in range(1, width)}
        found["oracle.starts"] = view(shard.words, at.Head.oracle_start_at, 1, shard.plan.directories + 1)[0].copy()
    return found


def _words_of(shard: Shard, stream: int, slots: np.ndarray, known: frozenset[str]) -> dict[str, np.ndarray]:
    """The words of a stream's slots that are state, and those that lead to its keys and its payload, read at once."""
    fields = {name: word for name, word in fields_of(shard.plan, stream).items() if name not in known}
    for link, d in enumerate(shard.plan.classes[stream]):
        if d >= 0:
            fields[f"key{link}"] = at.LINK0 + link * at.LINK_WORDS + at.Link.key
    fields["row"] = at.Slot.row
    read = live_columns.read_slots(shard.words, slots, np.array(list(fields.values()), np.int64))
    return dict(zip(fields, read, strict=True))


def _residents(shard: Shard, stream: int, found: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """One stream's columns but for codes, from words of its slots."""
    plan, words = shard.plan, shard.words
    found["cost"] = found["cost"] >> at.STREAM_BITS
    if plan.beside and not words.view(np.float64)[at.Head.sample_share]:
        found["departed"][:] = 0  # nothing is noted as long as all rows are stored
    for value in optional_fields(plan):
        if value.kind is float and value.name in found:
            found[value.name] = found[value.name].view(np.float64)
    return found


def _codes(shard: Shard, stream: int, named: list[list[np.ndarray]], known: frozenset[str]) -> dict[str, np.ndarray]:
    """One stream's codes, from the keys that its residents have named last in each directory."""
    found = {}
    for link, d in enumerate(shard.plan.classes[stream]):
        if d >= 0 and f"code{link}" not in known:
            top = int(view(shard.words, at.Head.dirs_at, shard.plan.directories, at.DIR_SIZE)[d, at.Directory.top])
            codes = live_columns.read_keys(shard.words, int(d), np.arange(top), at.Key.code)
            found[f"code{link}"] = _unmixed(codes)[named[d][-1]]
    return found


@lru_cache(maxsize=256)
def fields_of(plan: Plan, stream: int) -> dict[str, int]:
    """The words of a slot that are state, by name."""
    offsets = plan.offsets()
    found = {value.name: value.offset for value in at.Slot.fields() if value.saved}
    for column, kind in enumerate(plan.numbers[stream]):
        if kind >= 0:
            found[f"number{column}"] = offsets[at.Head.vals_off] + column
    if plan.beside:
        found["departed"] = at.Slot.row
    found |= {f"before{k}": offsets[at.Head.befores_off] + k for k in range(plan.befores)}
    return found | {value.name: offsets[value.where] + value.step for value in optional_fields(plan) if value.where}


@lru_cache(maxsize=64)
def optional_fields(plan: Plan) -> list[Word[Any]]:
    """The fields of slots that are state and that not every query has."""
    return [value for value in at.Slot.words.values() if value.saved and value.when and plan.has(value.when)]


def learned_yet(plan: Plan, words: np.ndarray) -> dict[str, int]:
    """The same as long as the policy may be deferred: none before it has begun, where nothing is released."""
    return {} if not words[at.Head.begun] and not plan.releases else learned(plan)


@lru_cache(maxsize=64)
def learned(plan: Plan) -> dict[str, int]:
    """The words of a key's record that are state, by name: none where they follow from the oracle's table."""
    counts = plan.credits_by_key or plan.learning.kind in (at.STAT_RUNNING, at.STAT_SKETCH)
    found = {f"freq{s}": at.chain_word(s, at.FREQ) for s in range(plan.streams if counts else 0)}
    for which, kept in enumerate(plan.kept_of_keys()):
        first = at.chain_word(plan.streams, 0) + which * plan.streams
        if kept.saved and (counts or kept.kind is int):
            found |= {f"{kept.name}{s}": first + s for s in range(plan.streams)}
    return found


def kind_of(name: str) -> type:
    """Whether a word of keys that is state holds integers or floats."""
    integers = [kept.name for kept in at.KEPT_OF_KEYS if kept.kind is int]
    return np.int64 if name.rstrip("0123456789") in integers else np.float64


def _keys(shard: Shard, in_use: list[np.ndarray]) -> dict[str, np.ndarray]:
    """How many keys each directory has, those that only statistics keep, and frequencies."""
    found = {}
    for d, keys in enumerate(in_use):
        if shard.plan.learning.kind == at.STAT_RUNNING:
            idle = live_columns.keys_idle(shard.words, d)
            codes = _unmixed(live_columns.read_keys(shard.words, d, idle, at.Key.code))
            order = np.argsort(codes)
            found[f"d{d}.idle"] = codes[order]
            keys = np.concatenate([keys, idle[order]])
        for name, word in learned_yet(shard.plan, shard.words).items():
            found[f"d{d}.{name}"] = live_columns.read_keys(shard.words, d, keys, word).view(kind_of(name))
    found["keys"] = np.array([len(keys) for keys in in_use], np.int64)
    return found


def _order(shard: Shard, slots: np.ndarray, keys: list[np.ndarray]) -> dict[str, np.ndarray]:
    """RAND's dense lists, and the lines of leaves where they depend on when they were taken."""
    plan, words, found = shard.plan, shard.words, {}
    if plan.keeps("dense") and words[at.Head.begun]:
        place = np.empty(int(words[at.Head.top]), np.int64)
        place[slots] = np.arange(len(slots))
        found = {f"p{pool}.dense": place[live_columns.read_dense(words, pool)] for pool in range(plan.pools)}
    for name, word in lines_of(plan).items() if words[at.Head.ranking] else ():
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
        found["leaf.ends"] = at.Node.ends
    if plan.keeps("lifetimes"):
        found["leaf.turn"] = at.Node.turn
    return found


def _unmixed(codes: np.ndarray) -> np.ndarray:
    out = np.empty(len(codes), np.uint64)
    live_columns.unmix_words(codes.view(np.uint64), out)
    return out.view(np.int64)
