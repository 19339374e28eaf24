"""The flow network of an instance: places of memory flow through time, past the rows that they hold.

    timeline   one node per instant; what flows along it is free
    chains     what leaves the timeline at a row's instant holds that row; it passes the row's matches, gains each of
               them, and may come back to the timeline at any of them

Where rows of one key are alike, one chain serves all rows of a stream and key: from each arrival of a partner to the
next flow as many places as rows are held. Which rows they are does not matter, because holding the newest is never
worse: they gain the same and live longer. So the network has one node per instant and per arrival instead of one per
match.
"""

from dataclasses import dataclass

import numpy as np

from windrow.offline.instance import Instance


@dataclass(frozen=True)
class Network:
    """Arcs with capacity and gain; supplies of nodes. The first nodes are the instants."""

    tail: np.ndarray
    head: np.ndarray
    capacity: np.ndarray
    gain: np.ndarray
    supply: np.ndarray
    enter: np.ndarray  # arc by which the n-th entry leaves the timeline
    stay: np.ndarray  # arc by which flow goes on behind the n-th event of a chain, or -1


@dataclass(frozen=True)
class Chains:
    """What a pool's network is made of: entries into chains, and the chains' events in order."""

    entry_instant: np.ndarray
    entry_event: np.ndarray  # the first event that the entry meets
    entry_rows: np.ndarray  # how many rows may enter
    event_instant: np.ndarray
    event_gain: np.ndarray
    event_before: np.ndarray  # how many rows may flow from the event before, which is of the same chain; 0: none
    entry_row: np.ndarray  # the row of an entry (of entries of several rows, the first)
    event_chain: np.ndarray


def chains_of_rows(instance: Instance, pool: int) -> Chains:
    """One chain per row."""
    mine = instance.pool[instance.events.row] == pool
    row, when, gain = instance.events.row[mine], instance.events.instant[mine], instance.gain[mine]
    fresh = np.diff(row, prepend=-1) != 0
    # several matches of one row at one instant are one event
    first = fresh | (np.diff(when, prepend=-1) != 0)
    starts = np.flatnonzero(first)
    gains = np.add.reduceat(gain, starts) if len(starts) else gain
    row, when, fresh = row[starts], when[starts], fresh[starts]
    heads = np.flatnonzero(fresh)
    return Chains(
        instance.instant[row[heads]], heads, np.ones(len(heads), np.int64), when, gains,
        np.where(fresh, 0, 1), row[heads], row,
    )  # fmt: skip


def chains_of_keys(instance: Instance, pool: int) -> Chains:
    """One chain per stream and key."""
    assert instance.key is not None
    found = [_of_stream(instance, s) for s in (0, 1) if (instance.pool[instance.stream == s] == pool).any()]
    if len(found) == 1:
        return found[0]
    if not found:
        none = np.zeros(0, np.int64)
        return Chains(none, none, none, none, none.astype(float), none, none, none)
    a, b = found
    shift, chains = len(a.event_instant), int(a.event_chain.max(initial=-1)) + 1
    joined = [np.concatenate([getattr(a, f), getattr(b, f)]) for f in Chains.__dataclass_fields__]
    joined[1] = np.concatenate([a.entry_event, b.entry_event + shift])
    joined[7] = np.concatenate([a.event_chain, b.event_chain + chains])
    return Chains(*joined)


def _of_stream(instance: Instance, stream: int) -> Chains:
    """The chains of one stream's keys: rows of the stream enter, arrivals of the other stream's rows are events."""
    assert instance.key is not None
    span = np.int64(len(instance.ticks) + 1)
    mine, others = instance.stream == stream, instance.stream != stream
    events, count = np.unique(instance.key[others] * span + instance.instant[others], return_counts=True)
    event_key, event_instant = events // span, events % span
    rows = np.flatnonzero(mine)
    rows = rows[np.argsort(instance.key[rows], kind="stable")]
    key, instant, last = instance.key[rows], instance.instant[rows], instance.last[rows]
    at = key * span + instant
    # entries: rows of one key and instant together, if they live until the next event
    target = np.searchsorted(events, at, side="right")
    safe = np.minimum(target, max(len(events) - 1, 0))
    useful = np.zeros(len(rows), np.bool_)
    if len(events):
        useful = (target < len(events)) & (last >= event_instant[safe]) & (event_key[safe] == key)
    first = np.diff(at, prepend=-1) != 0
    group = np.cumsum(first) - 1
    size = np.bincount(group[useful], minlength=int(group[-1]) + 1 if len(group) else 0)
    heads = np.flatnonzero(first)
    used = size > 0
    # rows that came before the event before, and still live at this one
    same = np.diff(event_key, prepend=-1) == 0
    previous = np.concatenate([[0], events[:-1]]) if len(events) else events
    came = np.searchsorted(at, previous, side="left")
    gone = np.searchsorted(key * span + last, events, side="left")
    before = np.where(same, np.maximum(came - gone, 0), 0)
    gain = np.where(event_instant >= instance.counted_from, count, 0).astype(np.float64)
    return Chains(
        instant[heads][used], target[heads][used], size[used], event_instant, gain, before,
        rows[heads][used], event_key,
    )  # fmt: skip


def network(instance: Instance, chains: Chains, pool: int, unit: float) -> Network:
    """The network of one pool; gains are whole multiples of `unit`."""
    instants, events = len(instance.ticks), len(chains.event_instant)
    gain = np.rint(chains.event_gain / unit).astype(np.int64)
    node = instants + np.arange(events)
    goes_on = np.flatnonzero(chains.event_before > 0)
    places = instance.places[pool]
    time = np.arange(instance.gaps)
    tail = np.concatenate([time, chains.entry_instant, node[goes_on] - 1, node])
    head = np.concatenate([time + 1, node[chains.entry_event], node[goes_on], chains.event_instant])
    most = int(places.max(initial=0))
    capacity = np.concatenate([
        np.full(instance.gaps, most), chains.entry_rows, chains.event_before[goes_on], np.full(events, most),
    ])  # fmt: skip
    free = np.zeros(instance.gaps, np.int64), np.zeros(events, np.int64)
    gains = np.concatenate([free[0], gain[chains.entry_event], gain[goes_on], free[1]])
    supply = np.zeros(instants + events, np.int64)
    if instance.gaps:
        supply[:instants] = np.diff(np.concatenate([[0], places, [0]]))
    stay = np.full(events, -1, np.int64)
    stay[goes_on] = instance.gaps + len(chains.entry_instant) + np.arange(len(goes_on))
    enter = instance.gaps + np.arange(len(chains.entry_instant))
    return Network(tail, head, capacity, gains, supply, enter, stay)
