"""Statistic: the base class of all estimates of who will arrive next."""

from __future__ import annotations

from typing import ClassVar

from windrow.record import Record


class Statistic(Record):
    """An estimate of how probable each key is among the next arrivals of a stream.

    A statistic here is configuration only: it says which estimate to keep and with which parameters.
    The counts themselves are part of a shard's state, are charged to its memory and travel in its snapshots.
    """

    TAG = "name"

    name: ClassVar[str]
    honest: ClassVar[bool]
    """Whether the estimate at any moment uses only rows that have arrived by then."""
