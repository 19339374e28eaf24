"""What an engine knows of its recall, and who estimates it when the query changes."""

from windrow.engine.bind import Binding
from windrow.kernels import layout as at
from windrow.quality.tracker import Recall, Tracker
from windrow.state.shard import Shard


def recall_of(shard: Shard, tracker: Tracker | None, matched: int) -> Recall | None:
    """What is known of recall after so many matches: all, as long as nothing was shed."""
    if not shard.stream_counter(at.SHED).any():
        return Recall(1.0, (1.0, 1.0), 1.0, float(matched))
    return tracker.recall(matched) if tracker is not None else None


def tracker_for(old: Binding, new: Binding, shard: Shard, tracker: Tracker | None, wanted: bool) -> Tracker | None:
    """The estimate of recall under a changed binding: it goes on, or begins where there was no cap before.

    Without a cap there is none. If rows had been shed before that, recall is not known any more.
    """
    shard.note(0.0)
    if new.query.memory is None or new.query.on_full != "shed" or not wanted:
        return None
    if tracker is not None:
        tracker.change(new.plan, new.recall_bytes, shard)
    elif old.query.memory is not None or shard.stream_counter(at.SHED).any():
        return None
    else:
        tracker = Tracker(new.plan, new.recall_bytes)
        tracker.begin(shard)
    shard.note(tracker.samples)
    return tracker
