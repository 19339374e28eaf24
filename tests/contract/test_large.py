"""More keys than the processor's cache is said to hold: leaves then wait until they win to be brought up to date.

An engine that is restored has every leaf up to date, so that it tells what one that was never stopped should have shed.
"""

import numpy as np
import pyarrow as pa
import pytest
from tests.streams import configurations, label

import windrow as wr
from windrow.kernels import layout as at
from windrow.policies import GreedyDual, Prob
from windrow.statistics import Decayed

PUSHES, ROWS, KEYS = 8, 1_500, 6_000
POLICIES = {label(policy): policy for policy in configurations()}
POLICIES |= {"prob slowly": Prob(Decayed(half_life=700)), "gdj 0": GreedyDual(0.0), "gdj half": GreedyDual(0.5)}


def batch(rng: np.random.Generator, push: int) -> dict[str, pa.Table]:
    """Rows of both streams, out of order by up to a push; some keys are popular, for a while."""
    found = {}
    for name in ("a", "b"):
        time = np.arange(push * ROWS, (push + 1) * ROWS) - rng.integers(0, ROWS, ROWS)
        keys = (KEYS * rng.random(ROWS) ** 3).astype(np.int64) + 40 * push
        found[name] = pa.table({"t": np.maximum(time, 0), "k": keys, "row": np.arange(ROWS) + push * ROWS})
    return found


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("memory", [wr.Memory(3_000), wr.Memory(4_000, split=True)], ids=["shared", "split"])
def test_leaves_that_wait_shed_what_others_would(policy: wr.policies.Policy, memory: wr.Memory) -> None:
    streams = [wr.Stream(name, "t", 4 * ROWS, lateness=ROWS) for name in ("a", "b")]
    query = wr.Query(streams=streams, on="k", memory=memory, policy=policy)
    rng = np.random.default_rng(5)
    batches = [batch(rng, push) for push in range(PUSHES)]
    oracle = None
    if "oracle" in label(policy):
        oracle = {name: pa.concat_tables([rows[name] for rows in batches]) for name in ("a", "b")}
    engine, other = (wr.Engine(query, oracle=oracle) for _ in range(2))
    for push, rows in enumerate(batches):
        assert engine.push(rows).equals(other.push(rows)), push
        assert engine.metrics.shed == other.metrics.shed
        other = wr.Engine.restore(other.snapshot())
    assert engine.metrics.shed > 10_000 and engine.metrics.matched > 1_000
    assert engine.bound()[1].words[at.Head.table_size] > at.CACHED
    assert engine.snapshot() == other.snapshot()
