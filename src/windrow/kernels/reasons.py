"""Why a row leaves memory, or is never admitted: one table, which every departure goes by.

    reason     counts as      lost   learnt from by policies that ask how long rows are held
    EXPIRED    expired        no     yes
    RELEASED   released       no     no: a constraint decided it, not memory
    SHED       shed           yes    yes
    SAMPLED    sampled, shed  yes    no: the sampler decided it, whatever the row was worth

A reason is the word of a stream's line that counts it. Rows that are lost are kept for the archive or the estimate of
recall, where somebody asked for them (`is_noted`); nothing else is.
"""

from windrow.kernels.jit import inline
from windrow.kernels.layout import EXPIRED, RELEASED, SAMPLED, SHED
from windrow.kernels.memory import Memory
from windrow.kernels.places import stream_at

NAMES = {"expired": EXPIRED, "released": RELEASED, "shed": SHED, "sampled": SAMPLED}


@inline
def is_lost(reason: int) -> bool:
    """Whether matches may be missed because a row has left."""
    return reason == SHED or reason == SAMPLED


@inline
def is_learned(reason: int) -> bool:
    """Whether the time for which the row was held says something about memory."""
    return reason == EXPIRED or reason == SHED


@inline
def count(m: Memory, stream: int, reason: int) -> None:
    """Count a row of a stream that leaves, or is never admitted."""
    m.w[stream_at(m, stream).at + reason] += 1
    if reason == SAMPLED:
        stream_at(m, stream).shed += 1
