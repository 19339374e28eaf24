"""Forged snapshots by the thousand: each is refused, or is a state that an engine can be in.

    python tests/forged.py --cases 5000 --seed 1

Real snapshots of small engines (`tests/seeds.py`: every policy, statistic and shape of join) are altered and given a
checksum that fits (`tests/forging.py`). `restore` raises SnapshotError and nothing else, and asks for no memory that
the bytes at hand cannot account for; or it accepts. Then kernels that look at every index (`tests/checked.py`) take
further rows and a change of memory, counters add up, the budget is kept, and its own snapshot says what the forged one
said and restores to the same again. A failure prints how to repeat it. `make soak` runs this, and
`tests/contract/test_forged.py` a part of it.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":  # before numba is loaded
    os.environ["NUMBA_DISABLE_JIT"] = "1"
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import argparse
import resource
import signal
import traceback
import warnings
from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from tests.checked import MOST_STEPS, Steps, check_kernels
from tests.forging import altered
from tests.running import assert_accounted
from tests.seeds import SEEDS, Made, made

import windrow as wr
from windrow.errors import MemoryFull, SnapshotError, WindrowError
from windrow.kernels import layout as at
from windrow.spec import Query
from windrow.state.parts import view
from windrow.state.snapshot import form as snapshot
from windrow.state.snapshot import narrow

SPARE_BYTES = 1 << 30  # of address space beyond what the program has when it starts
SECONDS = 60  # of the processor, for a case


class Forgery(Exception):
    """A forged snapshot was accepted that no engine can have written."""


def outcome(seed: Made, data: bytes) -> str:
    """What became of forged bytes, "refused" or "ran"; anything else is raised."""
    Steps.left = MOST_STEPS
    try:
        found = seed.restore(data)
    except SnapshotError as error:
        if isinstance(error.__cause__, (MemoryError, RecursionError)):
            raise Forgery("refused only when memory was gone") from error
        return "refused"
    said(found, data)
    use(seed, found)
    return "ran"


def said(found: Any, data: bytes) -> None:
    """What was accepted says the same when it is saved, and restores again."""
    again = found.snapshot()
    if contents(again) != contents(data):
        raise Forgery(f"saved again it is another state: {difference(contents(again), contents(data))}")
    if type(found).restore(again).snapshot() != again:
        raise Forgery("restored once more it is another state")


def use(seed: Made, found: Any) -> None:
    """Push further rows, change memory, save and restore in between; everything must stay in order."""
    for k, batch in enumerate(seed.more):
        if k == 1 and isinstance(found, wr.Engine):
            resize(found)
        if k == 2:
            other = type(found).restore(found.snapshot())
            if pushed(found, batch) != pushed(other, batch) or found.snapshot() != other.snapshot():
                raise Forgery("after a restore it goes on differently")
        else:
            pushed(found, batch)
        engine = found if isinstance(found, wr.Engine) else found.engine
        assert_accounted(engine)
        assert_inside(engine)


def pushed(found: Any, batch: dict[str, pa.Table]) -> Any:
    """The matches of a push as data; an error that says what is wrong with the rows or the memory is one, too."""
    try:
        matches = found.push(batch)
    except MemoryFull:
        return "full"
    except WindrowError as error:  # a forged schema or query takes other rows
        if isinstance(error, SnapshotError):
            raise
        return str(error)
    if isinstance(found, wr.Engine) and found._keeps_departures:
        found.departed()
    return repr(matches.to_pydict() if isinstance(matches, pa.Table) else matches)


def resize(engine: Any) -> None:
    """Give an engine more memory and then half of what it had."""
    memory = engine.memory
    if memory is None or memory.share is not None:
        return
    size = memory.rows if memory.rows is not None else f"{memory.bytes} B"
    for part in (2.0, 0.5):
        changed = int(memory.rows * part) if memory.rows is not None else f"{int(memory.bytes * part)} B"
        try:
            engine.memory = wr.Memory(changed, split=None if memory.split is None else dict_of(memory.split))
        except (WindrowError, OverflowError):  # too little, or too much
            assert size


def dict_of(split: Any) -> Any:
    return split if isinstance(split, str) else dict(split)


def assert_inside(engine: Any) -> None:
    """No pool is above its cap, and nothing is counted below zero."""
    if engine._shard is None:
        return
    pools = view(engine._shard.words, at.Head.pools_at, engine._shard.plan.pools, at.POOL_SIZE)
    assert (pools[:, at.Pool.used_rows] <= pools[:, at.Pool.cap_rows]).all(), "more rows than the cap"
    assert (pools[:, at.Pool.used_bytes] <= pools[:, at.Pool.cap_bytes]).all(), "more bytes than the cap"
    assert (pools[:, [at.Pool.used_rows, at.Pool.used_bytes]] >= 0).all(), "less than nothing is used"
    assert engine.metrics.matched >= 0


def contents(data: bytes) -> list[Any]:
    """What a snapshot says, however it is written."""
    snap = snapshot.read(data)
    header = dict(snap.header)
    if isinstance(header.get("query"), str):
        header["query"] = Query.from_json(header["query"])
    found: list[Any] = [header]
    for part in snap.parts:
        try:
            table = snapshot.table_of(part)
        except Exception:
            found.append(message(part))
            continue
        if table.schema.equals(narrow.SCHEMA):
            found.append({name: (c.dtype.str, c.tobytes()) for name, c in narrow.columns_of(table).items()})
        else:
            found.append(repr(table.combine_chunks().to_pydict()))
    return found


def message(part: pa.Buffer) -> Any:
    """What a part says that is no table: a schema, or the snapshot of a queue's engine."""
    try:
        return str(pa.ipc.read_schema(part))
    except Exception:
        return contents(part.to_pybytes())


def difference(one: list[Any], other: list[Any]) -> str:
    """The first place in which the contents of two snapshots differ."""
    if len(one) != len(other):
        return f"{len(one)} parts instead of {len(other)}"
    for k, (a, b) in enumerate(zip(one, other, strict=True)):
        if a != b and isinstance(a, dict) and isinstance(b, dict):
            names = [name for name in {*a, *b} if a.get(name) != b.get(name)]
            return f"part {k}: {sorted(names)}"
        if a != b:
            return f"part {k}: {str(a)[:300]} instead of {str(b)[:300]}"
    return "nothing"


# ------------------------------------------------------------------------------------------- the program


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--cases", type=int, default=1000)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--only", default="", help="real snapshots whose name contains this")
    arguments.add_argument("--seeds", type=int, default=0, help="draw so many of the real snapshots; 0 for all")
    arguments.add_argument("--case", type=int, help="this case alone, with the whole error")
    arguments.add_argument("--failures", type=int, default=20, help="stop after so many")
    given = arguments.parse_args()
    check_kernels()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    names = [name for name in SEEDS if given.only in name]
    if given.seeds:
        names = drawn(Random(given.seed), names, given.seeds)
    snapshots = {name: made(name) for name in names}
    limit()
    signal.signal(signal.SIGVTALRM, too_long)
    sys.exit(run(given, snapshots))


def drawn(random: Random, names: list[str], count: int) -> list[str]:
    """Some of the real snapshots, so that every policy is among them."""
    random.shuffle(names)
    first = {name.split()[0]: name for name in names}
    rest = [name for name in names if name not in first.values()]
    return [*first.values(), *rest[: max(count - len(first), 0)]]


def too_long(*_: Any) -> None:
    raise TimeoutError(f"longer than {SECONDS} s")


def limit() -> None:
    """Let what asks for too much memory fail at once."""
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + SPARE_BYTES, now + SPARE_BYTES))


def run(given: argparse.Namespace, snapshots: dict[str, Made]) -> int:
    counts: dict[str, Counter[str]] = {}
    names, failures = sorted(snapshots), 0
    for case in range(given.cases) if given.case is None else [given.case]:
        name = names[case % len(names)]
        what, data = altered(Random(f"{given.seed} {case}"), snapshots[name].data)
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        try:
            result = outcome(snapshots[name], data)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            if given.case is not None:
                raise
            failures += 1
            result = "failed"
            last = traceback.extract_tb(error.__traceback__)[-1]
            print(f"case {case}, {name}, {what}: {type(error).__name__}: {str(error)[:300]}")
            where = f"{os.path.basename(last.filename)}:{last.lineno} {last.name}"
            print(f"    {where}; repeat with --seed {given.seed} --case {case}", flush=True)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        counts.setdefault(name.split()[0], Counter())[result] += 1
        if failures >= given.failures:
            break
    report(counts)
    return 1 if failures else 0


def report(counts: dict[str, Counter[str]]) -> None:
    """Refused and accepted, by policy."""
    total: Counter[str] = Counter()
    for name, found in [*sorted(counts.items()), ("all", total)]:
        print(f"{name:16}{found['refused']:8} refused{found['ran']:8} accepted and ran{found['failed']:8} failed")
        if name != "all":
            total.update(found)


if __name__ == "__main__":
    main()
