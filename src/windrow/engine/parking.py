"""Parking: an engine's whole memory left in a folder, from where another process takes it up at memory speed.

    parked.json       what the engine is: digest, key, query, counters, which files hold what. Written last
    block-<n>.words   the words of a shard: the join's, those of forks that `auto` tries, those of recall's exact join
    chunk-<n>.arrow   a chunk of payload and the slots of its rows, as an Arrow IPC stream

Blocks are mapped and kernels work on them in place, so parking again after a push writes what is new and nothing else:
chunks of payload that were not there before, blocks that have grown (into a new file), and the header.

A parked folder is a private cache and not a snapshot: nothing in it is checked row by row. It is taken up only if it
belongs to this user alone, was parked since this machine started by the same windrow with the same compiled kernels,
and under the key that the caller names. Whoever takes it up renames the header first, which only one process can: from
then on, until it is parked again, the folder cannot be attached, and if the process dies it never can.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import stat
import sys
import time
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from windrow.engine.bind import bind
from windrow.engine.snapshots import State
from windrow.errors import SnapshotError
from windrow.kernels import layout as at
from windrow.kernels.compiled import NAME
from windrow.quality.tracker import Tracker, exact_plan
from windrow.spec import Query
from windrow.state.block import is_laid_out
from windrow.state.mapped import mapped_rows, mapped_words, write_rows, write_words
from windrow.state.payload import Payload
from windrow.state.plan import Plan
from windrow.state.shard import Shard
from windrow.state.snapshot.reading import layout_digest

if TYPE_CHECKING:
    from windrow.engine.bind import Binding

HEADER, TAKEN = "parked.json", "attached.json"
FORM = 1  # of the header
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(eq=False)
class Ground:
    """The folder that an engine lives in, and what of its memory lies there: arrays, by the file they are mapped from.

    Arrays that the engine has given up are not held here.
    """

    folder: Path
    files: dict[str, weakref.ref[np.ndarray]] = field(default_factory=dict)
    last: int = 0

    def knows(self, name: str, words: np.ndarray) -> None:
        """Remember which file an array is mapped from."""
        self.files[name] = weakref.ref(words)

    def name_of(self, words: np.ndarray) -> str | None:
        """The file that an array is mapped from."""
        return next((name for name, known in self.files.items() if known() is words), None)

    def new(self, form: str) -> str:
        """The name of a file that is not there yet."""
        self.last += 1
        return form.format(self.last)


# ------------------------------------------------------------------------------------------------ folders


def check_private(folder: Path) -> None:
    """Refuse a folder that others can read or change, or that is somebody else's."""
    try:
        found = os.lstat(folder)
    except OSError as error:
        raise SnapshotError(f"{folder} cannot be attached: {error.strerror}") from None
    mine = not hasattr(os, "geteuid") or (found.st_uid == os.geteuid() and not found.st_mode & 0o077)
    if not stat.S_ISDIR(found.st_mode) or not mine:
        raise SnapshotError(f"{folder} is not a folder of this user alone: parked engines are kept in private folders")


def prepared(folder: Path) -> None:
    """Make a folder that is there, or not yet, ready for parking: private, and not to be attached meanwhile."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_private(folder)
    (folder / HEADER).unlink(missing_ok=True)


def claimed(folder: Path, key: str) -> dict[str, Any]:
    """The header of a parked folder, which nobody else can attach from now on."""
    check_private(folder)
    try:
        os.rename(folder / HEADER, folder / TAKEN)
        header = json.loads((folder / TAKEN).read_bytes())
    except (OSError, ValueError) as error:
        raise SnapshotError(f"{folder} has no engine to attach: {error}") from None
    if not isinstance(header, dict) or header.get("fits") != _fits(key):
        raise SnapshotError(
            f"the engine in {folder} was parked by another windrow, before a restart, or under another key"
        )
    return header


def _fits(key: str) -> str:
    """A digest of all that must be the same where an engine is parked and where it is attached."""
    version = getattr(sys.modules[__name__.partition(".")[0]], "__version__", "")
    facts = (FORM, version, NAME, layout_digest(), np.__version__, pa.__version__, _boot(), key)
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def _boot() -> str:
    """Since when this machine runs: what had not reached the disk before is lost."""
    try:
        return _BOOT.read_text()
    except OSError:
        return str(round(time.time() - time.monotonic()))


def sealed(folder: Path, header: dict[str, Any], key: str) -> None:
    """Write the header, which makes a folder one that can be attached; remove what it does not name."""
    text = json.dumps(header | {"fits": _fits(key)}, separators=(",", ":"))
    new = folder / f"{HEADER}.new"
    new.write_text(text)
    kept = set(_named(header))
    for name in os.listdir(folder):
        if name.partition("-")[0] in ("block", "chunk") and name not in kept:
            (folder / name).unlink()
    (folder / TAKEN).unlink(missing_ok=True)
    os.rename(new, folder / HEADER)


def _named(header: Any) -> Iterator[str]:
    """All texts in a header."""
    if isinstance(header, str):
        yield header
    elif isinstance(header, (dict, list)):
        for part in header.values() if isinstance(header, dict) else header:
            yield from _named(part)


# ------------------------------------------------------------------------------------------------- park


def fresh(folder: Path) -> Ground:
    """A folder that holds nothing yet of the memory that is left there; files of others are replaced, not changed."""
    return Ground(folder, last=_last(folder))


def left(ground: Ground, state: State) -> dict[str, Any]:
    """Leave an engine's memory in a folder; what its header says of it."""
    binding, tracker = state.binding, state.tracker
    exact = tracker.shard if tracker is not None else None
    schemas = [binding.schemas[name].serialize().to_pybytes() for name in binding.query.names]
    return {
        "schemas": [base64.b64encode(schema).decode() for schema in schemas],
        "arrived": state.arrived.tolist(),
        "false": state.false.tolist(),
        "shard": _left_shard(ground, state.shard),
        "payload": [_left_payload(ground, payload) for payload in state.payloads],
        "tracker": None if tracker is None else tracker.state(),
        "exact": None if exact is None else _left_shard(ground, exact),
    }


def _left_shard(ground: Ground, shard: Shard) -> dict[str, Any]:
    found: dict[str, Any] = {"block": _left_block(ground, shard.words)}
    if shard.trials is not None:
        whole, floats = shard.trials.state()
        forks = [None if fork is None else _left_block(ground, fork.words) for fork in shard.trials.forks]
        plans = [fork.plan for fork in shard.trials.tried()]
        found["trial"] = {
            "whole": whole.tolist(),
            "floats": floats.tolist(),
            "popular": shard.trials.sample.popular.tolist(),
            "forks": forks,
            "caps": [plans[0].cap_rows, plans[0].cap_bytes] if plans else [],
        }
    return found


def _left_block(ground: Ground, words: np.ndarray) -> str:
    name = ground.name_of(words)
    if name is None:
        name = ground.new("block-{}.words")
        write_words(ground.folder / name, words)
    return name


def _left_payload(ground: Ground, payload: Payload) -> list[str]:
    found = []
    for table, owners in payload.chunks:
        name = ground.name_of(owners)
        if name is None:
            name = ground.new("chunk-{}.arrow")
            write_rows(ground.folder / name, table, owners)
        found.append(name)
    return found


# ------------------------------------------------------------------------------------------------ attach


def taken_up(folder: Path, query: Query, header: dict[str, Any]) -> tuple[State, Ground]:
    """The memory of a parked engine, in place."""
    ground = fresh(folder)
    schemas = [pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text))) for text in header["schemas"]]
    bound = bind(query, dict(zip(query.names, schemas, strict=True)), header["own_clock"])
    binding = replace(bound, keeps_payload=not header["count_only"])
    binding = binding.with_whole_rows() if header["departures"] else binding
    words = _block(ground, header["shard"]["block"])
    binding = binding.with_oracle(int(words[at.Head.oracle_rows]))
    shard = _shard(ground, binding.plan, not header["count_only"], header["shard"], words)
    payloads = [_payload(ground, binding, s, names) for s, names in enumerate(header["payload"])]
    tracker = None
    if header["tracker"] is not None:
        tracker = _tracker(ground, binding, header)
    arrived, false = np.array(header["arrived"], np.int64), np.array(header["false"], np.int64)
    return State(binding, shard, payloads, tracker, arrived, false), ground


def _last(folder: Path) -> int:
    """The highest number of a file."""
    numbers = [name.partition("-")[2].partition(".")[0] for name in os.listdir(folder)]
    return max((int(number) for number in numbers if number.isdigit()), default=0)


def _block(ground: Ground, name: str) -> np.ndarray:
    words = mapped_words(ground.folder / name)
    ground.knows(name, words)
    return words


def _shard(ground: Ground, plan: Plan, emit: bool, header: dict[str, Any], words: np.ndarray) -> Shard:
    _check(is_laid_out(words, plan))
    shard = Shard(plan, emit, words)
    trial = header.get("trial")
    _check((trial is None) == (shard.trials is None))
    if shard.trials is not None and trial is not None:
        whole, floats = np.array(trial["whole"], np.int64), np.array(trial["floats"], np.float64)
        shard.trials.resume(whole, floats, np.array(trial["popular"], np.int64))
        sample = shard.trials.sample
        if trial["caps"]:
            rows, size = (np.array(caps) for caps in trial["caps"])
            plan = plan.for_sample(rows, size, sample.idle_limit(plan))
        shard.trials.forks = [None if name is None else _fork(ground, plan, name) for name in trial["forks"]]
    return shard


def _fork(ground: Ground, plan: Plan, name: str) -> Shard:
    words = _block(ground, name)
    _check(is_laid_out(words, plan))
    fork = Shard(plan, False, words)
    fork.trials = None
    return fork


def _payload(ground: Ground, binding: Binding, stream: int, names: Sequence[str]) -> Payload:
    payload = Payload(stream, binding.payload_schema(stream))
    for name in names:
        table, owners = mapped_rows(ground.folder / name, payload.schema)
        ground.knows(name, owners)
        payload.chunks.append((table, owners))
    return payload


def _tracker(ground: Ground, binding: Binding, header: dict[str, Any]) -> Tracker:
    exact = None
    if header["exact"] is not None:
        plan = exact_plan(binding.plan, binding.recall_bytes)
        exact = _shard(ground, plan, False, header["exact"], _block(ground, header["exact"]["block"]))
    tracker = Tracker(binding.plan, binding.recall_bytes, exact)
    tracker.resume(header["tracker"])
    return tracker


def _check(fine: bool) -> None:
    if not fine:
        raise ValueError("a block is laid out in another way than its query says")
