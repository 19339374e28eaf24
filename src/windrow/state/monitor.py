"""Monitors: which promises are used, and with which k, from what kernels have measured (kernels/release/watch.py).

After every `reaction` arrivals, for each promise that was not declared:

    k_u   the largest distance of the last two such spells; of one that rests, since it has rested
    k_e   margin * k_u, and a few arrivals more: what rows are released by, unless it passes `most`, or what comes while
          a row that would be released stays anyway: the promise could free nothing that its window does not

A promise is used once enough was measured without breaking it, and for long: a distance can be seen only when so many
rows have come, so k is trusted after eight times as many arrivals of the stream that it counts. One that was broken
waits as long again; uniqueness, which has no k, ten times `reaction`. What is broken again and again waits twice as
long each time, up to half of all that has come: rows that were released cannot tell, so that a promise was broken more
often than is seen. Covers follow from the promises of uniqueness that are used, and are written anew when these change.

Whether No rows are kept for parents that come later, or dropped because these find out by themselves (an exempt edge),
is chosen by what is dearer: rows that wait k arrivals in vain, or No rows until they go.
"""

import numpy as np

from windrow.kernels import layout as at
from windrow.kernels import maintenance
from windrow.kernels.layout import Head, Promise
from windrow.state import block
from windrow.state.parts import view
from windrow.state.plan import Plan
from windrow.state.release import Release, covers_of

SLACK = 16  # arrivals on top: of small distances a share is next to nothing, and so is what these arrivals cost
LEAST_MEASURED = 32  # distances before a promise is used
LEAST_ROWS = 256  # rows of a stream before its keys are taken for unique
TRUST = 8  # times k arrivals before it is taken for the largest distance
REST = 10  # times `reaction` for which uniqueness rests
PATIENCE = 4  # breaks of a distance that count as changes of its k; more are its nature


def promises(words: np.ndarray, release: Release) -> np.ndarray:
    """The lines of promises."""
    return view(words, Head.promises_at, len(release.promises), at.PROMISE_SIZE)


def adapt(words: np.ndarray, plan: Plan) -> None:
    """Decide anew which promises are used, if it is time for that."""
    release = plan.release
    if release is None or release.monitored is None:
        return
    arrivals = int(words[Head.arrivals])
    if arrivals - int(words[Head.adapted]) < release.monitored.reaction:
        return
    words[Head.adapted] = arrivals
    lines = promises(words, release)
    streams = view(words, Head.streams_at, plan.streams, at.STREAM_SIZE)
    before = _unique_used(lines)
    for line in lines:
        if line[Promise.kind] == at.BY_UNIQUE:
            _adapt_unique(line, int(streams[line[Promise.stream], at.Stream.rank]), release)
        else:
            counted = int(line[Promise.other if line[Promise.kind] == at.BY_INTEGRITY else Promise.stream])
            stay = _stay(line, streams, counted, int(words[Head.clock]))
            _adapt_distance(line, int(streams[counted, at.Stream.rank]), release, stay)
    if release.monitored.release:
        _choose_exempt(words, plan, release, lines, streams)
    if before != _unique_used(lines) or not words[Head.covers_hold]:
        used = [bool(line[Promise.is_used]) for line in lines]
        covers, starts = covers_of(tuple(map(str, range(plan.streams))), release.edges, used)
        block.write_covers(words, plan, covers, starts)
        maintenance.doubt(words)


def _unique_used(lines: np.ndarray) -> list[bool]:
    return [bool(line[Promise.is_used]) for line in lines if line[Promise.kind] == at.BY_UNIQUE]


def _adapt_unique(line: np.ndarray, arrivals: int, release: Release) -> None:
    """Keys are taken for unique when many rows came, and none of them twice for long."""
    assert release.monitored is not None
    if line[Promise.seen] > 0:
        line[Promise.since], line[Promise.seen], line[Promise.before] = arrivals, 0, 1
    enough = arrivals >= max(LEAST_ROWS, release.monitored.reaction)
    broken = line[Promise.before] > 0  # ever
    rested = arrivals - line[Promise.since] >= _rest(REST * release.monitored.reaction, line, arrivals, 1)
    line[Promise.is_used] = enough and (rested or not broken)


def _stay(line: np.ndarray, streams: np.ndarray, counted: int, clock: int) -> float:
    """How many rows of a stream come while a row of another stays until its window ends, by the rates since the promise
    was first looked at (`asked`, as of uniqueness)."""
    came = int(streams[counted, at.Stream.rank])
    if not line[Promise.asked]:
        line[Promise.asked], line[Promise.asked_clock] = came, clock
    passed = clock - int(line[Promise.asked_clock])
    rate = (came - int(line[Promise.asked])) / passed if passed > 0 else at.HIGH
    late = int(streams[:, at.Stream.lateness].max())
    return max(
        last * came / max(int(stream[at.Stream.rank]), 1) if (last := int(stream[at.Stream.last_rows])) else
        (int(stream[at.Stream.reach]) + late) * rate
        for place, stream in enumerate(streams) if place != counted
    )  # fmt: skip


def _adapt_distance(line: np.ndarray, arrivals: int, release: Release, stay: float) -> None:
    """k follows what was seen lately."""
    monitored = release.monitored
    assert monitored is not None
    largest = max(int(line[Promise.seen]), int(line[Promise.before]))
    line[Promise.before], line[Promise.seen] = line[Promise.seen] if line[Promise.is_used] else largest, 0
    k = min(int(np.ceil(monitored.margin * largest)) + SLACK, at.HIGH)
    rested = arrivals - line[Promise.since] >= _rest(max(monitored.reaction, TRUST * k), line, arrivals, PATIENCE)
    line[Promise.k] = k
    line[Promise.is_used] = bool(line[Promise.measured] >= LEAST_MEASURED and k <= min(monitored.most, stay) and rested)


def _rest(least: int, line: np.ndarray, arrivals: int, patience: int) -> int:
    """Arrivals for which a promise rests that has been broken some times."""
    more = min(max(int(line[Promise.violations]) - patience, 0), 32)
    return max(least, min(least << more, arrivals // 2))


def _choose_exempt(words: np.ndarray, plan: Plan, release: Release, lines: np.ndarray, streams: np.ndarray) -> None:
    """Drop No rows of a stream where its parents wait less than these would stay."""
    edges = view(words, Head.edges_at, len(release.edges), at.EDGE_SIZE)
    evidence = view(words, Head.evidence_at, len(release.evidence), at.EVIDENCE_SIZE)
    for edge in edges:
        if edge[at.Edge.parent] < 0:
            continue
        back = next(
            e for e in edges if (e[at.Edge.stream], e[at.Edge.other]) == (edge[at.Edge.other], edge[at.Edge.stream])
        )
        waits = [
            int(lines[e[at.Evidence.promise], Promise.k])
            for e in evidence[back[at.Edge.first_evidence] : back[at.Edge.after_evidence]]
            if lines[e[at.Evidence.promise], Promise.is_used]
            and lines[e[at.Evidence.promise], Promise.kind] in (at.BY_INTEGRITY, at.BY_ORDER)
        ]
        child, parent = streams[edge[at.Edge.stream]], streams[edge[at.Edge.other]]
        ratio = int(parent[at.Stream.rank]) / max(int(child[at.Stream.rank]), 1)
        stay = int(child[at.Stream.last_rows]) or 4 * int(child[at.Stream.rows]) or at.HIGH
        edge[at.Edge.is_exempt] = bool(waits) and min(waits) * ratio < stay
