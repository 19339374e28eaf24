"""What a plan that releases by constraints has beside: the join graph, and evidence, as the lines that kernels read."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Release:
    """The lines of kernels/release, by stream where that is said.

    `edges`, `evidence`, `covers` and `ordered` are lines of the records of these names (kernels/layout.py); the edges of
    a stream follow each other, from `edge_starts[stream]` on, and so do its covers. `befores[stream, k]` is the child
    stream whose arrivals the k-th such word of the stream's slots counts, or NONE. The rest are words of streams' lines.
    """

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
