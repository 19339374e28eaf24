"""What is known of matches that were missed because a constraint did not hold (kernels/release/sparing.py).

Of a promise that was kept nothing is missed. Where one was broken, rows that were spared tell how many matches: an
estimate, with its error. Nothing is known if violations were seen and no match was, if spared rows had to make room, or
if a promise cannot be seen broken otherwise and hardly any row was spared for it.
"""

import logging
from dataclasses import dataclass
from threading import Lock

import numpy as np

from windrow.kernels import layout as at
from windrow.quality.tracker import FEW, T_95, Recall
from windrow.state.monitor import promises
from windrow.state.parts import view
from windrow.state.shard import Shard

_log = logging.getLogger("windrow")
_ONE = Lock()  # shards, each in its thread, tell of the same constraints


@dataclass(frozen=True)
class Missed:
    """An estimate of matches that were missed, and half the width of its interval; at least so many were."""

    matches: float = 0.0
    spread: float = 0.0
    least: float = 0.0

    def recall(self, matched: int) -> Recall:
        """Recall where so many matches were produced and nothing else was lost; what is recent is not known apart."""
        exact = matched + self.matches
        overall = matched / exact if exact else 1.0
        low = matched / (exact + self.spread) if exact else 1.0
        most = matched + max(self.matches - self.spread, self.least)
        return Recall(overall, (low, matched / most if most else overall), overall, exact)


NOTHING = Missed()


def missed(shard: Shard, deletions: np.ndarray) -> Missed | None:
    """The matches that a shard has missed by releasing rows, given deletions by stream (done, in vain); None where that
    is not known."""
    release = shard.plan.release
    if release is None or not shard.words[at.Head.releasing]:
        return NOTHING
    if shard.demoted is not None and not shard.demoted.dropped.any():
        return NOTHING
    lines, share = promises(shard.words, release), float(shard.floats[at.Head.spares])
    groups = view(shard.words, at.Head.missed_at, 1, at.GROUPS)[0].view(np.float64)
    certain = float(shard.floats[at.Head.missed])
    found = certain + float(groups.sum())
    blinded = bool(shard.words[at.Head.blinded])
    if found > 0.0 and share > 0.0 and shard.demoted is None and not blinded:
        spread = max(T_95 * float(np.sqrt(at.GROUPS * groups.var(ddof=1))), FEW / share)
        seen = float((groups > 0).sum())  # each stands for one match at least
        return Missed(found, spread, certain + seen)
    if found > 0.0 or blinded or lines[:, at.Promise.violations].any() or _hidden(lines, deletions, share):
        return None
    return NOTHING


def _hidden(lines: np.ndarray, deletions: np.ndarray, share: float) -> bool:
    """Whether a promise may have been broken that only spared rows can see broken, and too few were spared for it."""
    released, measured = lines[:, at.Promise.released], lines[:, at.Promise.measured]
    unsure = released * share < FEW  # of so many rows with missed matches one is spared, with 95 %
    # no partner came in time: whether they come too late, rows that are gone do not see
    late = (lines[:, at.Promise.kind] == at.BY_INTEGRITY) & (released > 0) & (measured == 0)
    # what was released for the only row of a key would meet the next one that comes after that row was deleted, be it
    # that this one was released before, too: its deletion is then in vain
    unique = (lines[:, at.Promise.kind] == at.BY_UNIQUE) & (released > 0)
    deleted = unique & (deletions[lines[:, at.Promise.stream]] > 0).any(axis=1)
    return bool((unsure & (late | deleted)).any())


def broken(shard: Shard) -> list[str]:
    """The declared constraints by which rows were lost that turned out not to hold."""
    release = shard.plan.release
    if release is None or release.monitored is not None or shard.demoted is not None:
        return []
    lines = promises(shard.words, release)
    found = (lines[:, at.Promise.violations] > 0) & (lines[:, at.Promise.released] > 0)
    return [release.texts[k] for k in np.flatnonzero(found)]


def warn(shard: Shard, told: set[str]) -> None:
    """Say of declared constraints that they are broken, unless that was told."""
    with _ONE:
        new = [text for text in broken(shard) if text not in told]
        told.update(new)
    for text in new:
        _log.warning(
            "%s: this constraint does not hold, and rows were released by it: matches are missed, and recall is "
            "estimated, or None; on_violation='demote' finds them, constraints='auto' relies on what holds",
            text,
        )
