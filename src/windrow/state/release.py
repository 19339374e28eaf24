"""What a plan that releases by constraints has beside: the join graph, and evidence, as the lines that kernels read."""

from dataclasses import dataclass

import numpy as np

from windrow.kernels import layout as at
from windrow.spec.constraints import Monitored
from windrow.spec.graph import MOST_NEIGHBOURS, Graph


@dataclass(frozen=True, eq=False)
class Release:
    """The lines of kernels/release, by stream where that is said.

    `promises`, `edges`, `evidence`, `covers`, `watched` and `ordered` are lines of the records of these names
    (kernels/layout.py); the edges of a stream follow each other, from `edge_starts[stream]` on, and so do its covers.
    `befores[stream, k]` is the child stream whose arrivals the k-th such word of the stream's slots counts, or NONE.
    The rest are words of streams' lines.
    """

    promises: np.ndarray
    watched: np.ndarray
    edges: np.ndarray
    edge_starts: np.ndarray
    evidence: np.ndarray
    covers: np.ndarray
    cover_starts: np.ndarray
    ordered: np.ndarray
    befores: np.ndarray
    remembers: tuple[bool, ...]
    is_leaf: tuple[bool, ...]
    is_judged: tuple[bool, ...]
    turns: tuple[int, ...]
    clusters_in_time: bool
    texts: tuple[str, ...]  # of promises
    monitored: Monitored | None = None
    spares: float = 0.0  # the share of rows that are not released, to see what comes


def covers_of(names: tuple[str, ...], edges: np.ndarray, used: list[bool]) -> tuple[np.ndarray, np.ndarray]:
    """The covers of each stream under the promises that are used; and where those of each begin.

    Edges count as many-one as far as partners are found in one place.
    """
    pairs: dict[tuple[int, int], tuple[tuple[str, str], ...]]
    pairs = {(int(e[at.Edge.stream]), int(e[at.Edge.other])): () for e in edges}
    children = tuple(
        tuple(
            int(e[at.Edge.other])
            for e in edges
            if e[at.Edge.stream] == s and e[at.Edge.child] >= 0 and used[e[at.Edge.child]]
        )
        for s in range(len(names))
    )
    graph = Graph(names, pairs, children)
    lines, starts = list[list[int]](), list[int]()
    for stream in range(len(names)):
        starts.append(len(lines))
        near = graph.neighbours(stream)
        for cover in graph.covers_beside(stream):
            lines.append([sum(1 << near.index(n) for n in cover.neighbours), int(cover.own)])
    return np.array(lines, np.int64).reshape(-1, at.COVER_SIZE), np.array([*starts, len(lines)], np.int64)


def most_covers(release: Release) -> int:
    """Room for covers: promises that are found later may give more than those that hold at first."""
    if release.monitored is None:
        return len(release.covers)
    neighbours = np.diff(release.edge_starts)
    return int(sum(2 << min(int(n), MOST_NEIGHBOURS) for n in neighbours))
