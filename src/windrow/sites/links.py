"""Link: how a site reaches another: latency, bandwidth, jitter, and what a gigabyte costs."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from windrow.errors import SpecError
from windrow.record import Record, number
from windrow.spec.durations import Duration, DurationLike, parse_duration

_RATE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kKMG]?)(bit|B)/s\s*")
_SCALE = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9}
HEADER_BYTES = 180  # what Flight, HTTP/2, TLS, TCP, IP and Ethernet add to a message, with what acknowledges it
BARE_BYTES = 40  # what IP and TCP alone put before a message: the paper's


@dataclass(frozen=True, init=False)
class Link(Record):
    """A way from one site to another, or between them both.

    >>> Link("25 ms", "1024 kbit/s").seconds(128_000)
    1.025

    Parameters:
        latency: how long the first byte is under way.
        bandwidth: a text such as "10 Mbit/s" or "2 MB/s", or bytes per second; None is no limit.
        jitter: how much longer a message may be under way, at random.
        price: what a gigabyte (10^9 bytes) costs.
    """

    latency: Duration
    bandwidth: float | None
    jitter: Duration
    price: float

    def __init__(
        self,
        latency: DurationLike = "0 s",
        bandwidth: str | float | None = None,
        jitter: DurationLike = "0 s",
        price: float = 0.0,
    ) -> None:
        self._set(
            latency=parse_duration(latency, "the latency of a link"),
            bandwidth=_rate(bandwidth),
            jitter=parse_duration(jitter, "the jitter of a link"),
            price=float(number(price, "the price of a link")),
        )
        for what in (self.latency, self.jitter):
            if what.unit == "steps" and what.amount:
                raise SpecError(f"latency and jitter of a link need a unit, as in '{what.amount} ms'")

    @property
    def delay(self) -> float:
        """The latency in seconds."""
        return self.latency.amount / 1e9

    def transfer(self, size: float) -> float:
        """How long the link is busy with so many bytes, in seconds."""
        return 0.0 if self.bandwidth is None else size / self.bandwidth

    def seconds(self, size: float) -> float:
        """How long so many bytes are under way, in seconds: S(x) of the paper."""
        return self.delay + self.transfer(size)


def _rate(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, str):
        found = _RATE.fullmatch(value)
        if found is None:
            raise SpecError(f"the bandwidth of a link: cannot read {value!r}; write it as '10 Mbit/s' or '2 MB/s'")
        value = float(found[1]) * _SCALE[found[2]] / (8 if found[3] == "bit" else 1)
    rate = float(number(value, "the bandwidth of a link"))
    if not rate:
        raise SpecError("the bandwidth of a link must be more than nothing")
    return rate


class Links:
    """The links between sites; a link that is not told is the default one."""

    def __init__(self, known: Any = None, default: Link | None = None) -> None:
        """`known`: one link for all, or a mapping from pairs of sites, or from "A -> B" or "A - B", to links."""
        self.default = known if isinstance(known, Link) else default or Link()
        self.known: dict[tuple[str, str], Link] = {}
        if isinstance(known, Links):
            self.default, self.known = known.default, dict(known.known)
        elif isinstance(known, Mapping):
            for ends, link in known.items():
                made = link if isinstance(link, Link) else _link(ends, link)
                for pair in _pairs(ends):
                    self.known[pair] = made
        elif known is not None and not isinstance(known, Link):
            raise SpecError(f"links must be a Link, or map pairs of sites to one, got {known!r}")

    def between(self, sender: str, receiver: str) -> Link:
        """The link from one site to another; a site reaches itself at once."""
        return LOCAL if sender == receiver else self.known.get((sender, receiver), self.default)


LOCAL = Link()


def _link(ends: Any, link: Any) -> Link:
    if not isinstance(link, Mapping):
        raise SpecError(f"the link {ends!r} must be a Link, or a mapping of its latency, bandwidth …, got {link!r}")
    return Link.from_dict(link)


def _pairs(ends: Any) -> Iterable[tuple[str, str]]:
    if isinstance(ends, tuple) and len(ends) == 2:
        return [ends]
    if isinstance(ends, str):
        if "->" in ends:
            left, _, right = ends.partition("->")
            return [(left.strip(), right.strip())]
        left, dash, right = ends.partition(" - ")
        if dash:
            return [(left.strip(), right.strip()), (right.strip(), left.strip())]
    raise SpecError(f"a link joins two sites, as in 'A -> B' (one way) or 'A - B' (both), got {ends!r}")
