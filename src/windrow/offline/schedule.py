"""Schedules: until which instant each row is held. What a schedule gains, and how one is read off a flow.

`until[x]` is the last instant at which row x is there to be matched; a row that is not held at all has its own instant.
"""

import numpy as np

from windrow.kernels.offline.schedule import assign_newest, key_gain, occupancy
from windrow.offline.graph import Chains, Network
from windrow.offline.instance import Instance


def until_of_rows(instance: Instance, chains: Chains, net: Network, flow: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows and how long each is held, where every row has a chain of its own."""
    events = len(chains.event_instant)
    passed = np.zeros(events, np.bool_)
    passed[chains.entry_event[flow[net.enter] > 0]] = True
    has = net.stay >= 0
    passed[has] |= flow[net.stay[has]] > 0
    until = np.zeros(instance.rows, np.int64)
    np.maximum.at(until, chains.event_chain[passed], chains.event_instant[passed])
    rows = np.unique(chains.event_chain)
    return rows, np.maximum(until[rows], instance.instant[rows])


def until_of_keys(
    instance: Instance, chains: Chains, net: Network, flow: np.ndarray, pool: int
) -> tuple[np.ndarray, np.ndarray]:
    """The same where rows of one key share a chain: of each key the newest are held."""
    assert instance.key is not None
    events = len(chains.event_instant)
    has = net.stay >= 0
    entered = flow[net.enter]
    stayed = np.zeros(events, np.int64)
    stayed[has] = flow[net.stay[has]]
    until = instance.instant.copy()
    rows = np.flatnonzero(instance.pool == pool)
    order = np.lexsort((rows, instance.key[rows], instance.stream[rows]))
    assign_newest(
        rows[order], instance.stream, instance.key, instance.instant, chains.entry_event, entered,
        chains.entry_row, chains.event_instant, chains.event_chain, stayed, until,
    )  # fmt: skip
    return rows, until[rows]


def gain_of(instance: Instance, until: np.ndarray) -> float:
    """What a schedule gains, matches of rows that come together included; found without any flow."""
    if instance.key is None:
        return instance.at_once + instance.events.gained(until)
    return instance.at_once + key_gain(
        instance.stream, instance.key, instance.instant, np.minimum(until, instance.last), instance.counted_from,
        int(instance.key.max(initial=-1)) + 1,
    )  # fmt: skip


def fits(instance: Instance, until: np.ndarray) -> bool:
    """Whether a schedule stays inside the memory at all times."""
    return bool((held_rows(instance, until) <= instance.places).all())


def held_rows(instance: Instance, until: np.ndarray) -> np.ndarray:
    """[pool, gap]: rows held."""
    return occupancy(instance.instant, until, instance.pool, instance.places.shape[0], instance.gaps)
