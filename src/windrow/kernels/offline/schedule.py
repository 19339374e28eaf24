"""What the offline optimum needs of loops: who is held, what that gains, how full memory is."""

from typing import Any

import numpy as np

from windrow.kernels.jit import entry


@entry
def occupancy(instant: Any, until: Any, pool: Any, pools: int, gaps: int) -> Any:
    """[pool, gap]: rows that are held over a gap."""
    change = np.zeros((pools, gaps + 1), np.int64)
    for k in range(instant.shape[0]):
        if until[k] > instant[k]:
            change[pool[k], instant[k]] += 1
            change[pool[k], until[k]] -= 1
    for p in range(pools):
        for gap in range(1, gaps + 1):
            change[p, gap] += change[p, gap - 1]
    return change[:, :gaps]


@entry
def key_gain(stream: Any, key: Any, instant: Any, until: Any, counted_from: int, keys: int) -> float:
    """Matches of held rows with rows that come later: rows are in order of instants."""
    n = instant.shape[0]
    there = np.zeros((2, max(keys, 1)), np.int64)  # held rows by stream and key
    order = np.argsort(until)
    gone, total, start = 0, 0, 0
    while start < n:
        end = start
        while end < n and instant[end] == instant[start]:
            end += 1
        while gone < n and until[order[gone]] < instant[start]:
            row = order[gone]
            if until[row] > instant[row]:
                there[stream[row], key[row]] -= 1
            gone += 1
        for k in range(start, end):
            if instant[k] >= counted_from:
                total += there[1 - stream[k], key[k]]
        for k in range(start, end):
            if until[k] > instant[k]:
                there[stream[k], key[k]] += 1
        start = end
    return float(total)


@entry
def assign_newest(
    rows: Any, stream: Any, key: Any, instant: Any, entry_event: Any, entered: Any,
    entry_row: Any, event_instant: Any, event_chain: Any, stayed: Any, until: Any,
) -> None:  # fmt: skip
    """Say which rows of a key are held: always the newest, as many as flow.

    `rows` are in order of (stream, key, arrival), as entries and chains are. Held rows of a chain are kept in a list in
    order of arrival; an entry at an instant makes it longer, an event makes it as long as what goes on behind it.
    """
    held = np.empty(rows.shape[0], np.int64)
    place = 0  # in rows
    e = 0  # in entries
    entries, events = entry_event.shape[0], event_instant.shape[0]
    first = 0
    while first < events:  # one chain
        last = first
        while last < events and event_chain[last] == event_chain[first]:
            last += 1
        low = high = 0  # the list is held[low:high]
        for event in range(first, last):
            # what goes on from the event before: the newest of the list
            goes_on = stayed[event]
            low = max(low, high - goes_on)
            while e < entries and entry_event[e] == event:
                row = entry_row[e]
                while place < rows.shape[0] and rows[place] != row:
                    place += 1
                count = high - low + entered[e]
                k = place
                while (
                    k < rows.shape[0]
                    and stream[rows[k]] == stream[row]
                    and key[rows[k]] == key[row]
                    and instant[rows[k]] == instant[row]
                ):
                    held[high] = rows[k]
                    high += 1
                    k += 1
                low = max(low, high - count)
                e += 1
            for k in range(low, high):
                until[held[k]] = event_instant[event]
        first = last


@entry
def residual_prices(tail: Any, head: Any, capacity: Any, gain: Any, flow: Any, nodes: int) -> Any:
    """Potentials that prove a flow optimal: of every arc with room, potential[head] <= potential[tail] - gain."""
    degree = np.zeros(nodes + 1, np.int64)
    for a in range(tail.shape[0]):
        if flow[a] < capacity[a]:
            degree[tail[a] + 1] += 1
        if flow[a] > 0:
            degree[head[a] + 1] += 1
    for v in range(nodes):
        degree[v + 1] += degree[v]
    to = np.empty(degree[nodes], np.int64)
    cost = np.empty(degree[nodes], np.int64)
    fill = degree[:nodes].copy()
    for a in range(tail.shape[0]):
        if flow[a] < capacity[a]:
            to[fill[tail[a]]], cost[fill[tail[a]]] = head[a], -gain[a]
            fill[tail[a]] += 1
        if flow[a] > 0:
            to[fill[head[a]]], cost[fill[head[a]]] = tail[a], gain[a]
            fill[head[a]] += 1
    potential = np.zeros(nodes, np.int64)
    queue = np.arange(nodes)
    waiting = np.ones(nodes, np.bool_)
    first, count = 0, nodes
    while count > 0:
        v = queue[first]
        first = (first + 1) % nodes
        count -= 1
        waiting[v] = False
        for k in range(degree[v], degree[v + 1]):
            u = to[k]
            if potential[v] + cost[k] < potential[u]:
                potential[u] = potential[v] + cost[k]
                if not waiting[u]:
                    waiting[u] = True
                    queue[(first + count) % nodes] = u
                    count += 1
    return potential
