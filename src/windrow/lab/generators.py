"""Generators: streams with known popularity, locality and bursts, as Arrow tables in time order.

Every generator is a function of its arguments: the same ones give the same rows. Keys are 0 to keys - 1, in
no order of popularity, so that nothing can be read off the number of a key.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.errors import SpecError
from windrow.record import number, one_of, whole

CORRELATIONS = ("uncorrelated", "correlated", "anticorrelated")

START = np.datetime64("2024-01-01T00:00:00", "us")
"""Where the clock of `bursty_pair` starts."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def zipf_pair(
    rows: int,
    keys: int = 50,
    z_left: float = 1.0,
    z_right: float = 1.0,
    correlation: str = "uncorrelated",
    seed: int = 0,
) -> tuple[pa.Table, pa.Table]:
    """Two streams with one row each per step: time "t" counts from 0, key "k" has a Zipf distribution.

    The key of rank r has a probability proportional to r ** -z; z = 0 is uniform. Draws are independent. With
    correlation "correlated" the popular keys of one stream are those of the other, with "anticorrelated" they
    are the other's rarest, and with "uncorrelated" each stream ranks the keys at random.

    >>> left, right = zipf_pair(rows=1000, keys=10, seed=7)
    >>> left.num_rows, right.column_names
    (1000, ['t', 'k'])
    """
    rows, keys = whole(rows, "rows"), whole(keys, "keys", least=1)
    one_of(correlation, CORRELATIONS, "correlation")
    rng = _rng(seed)
    left_rank, right_rank = _ranks(keys, correlation, rng)
    sides = ((left_rank, z_left, "z_left"), (right_rank, z_right, "z_right"))
    left, right = (_steps(rank[_draw(_zipf(keys, number(z, what)), rows, rng)]) for rank, z, what in sides)
    return left, right


def locality_stream(
    rows: int, keys: int = 100, skew: float = 1.0, alpha: float = 0.75, seed: int = 0, ranking: int = 0
) -> pa.Table:
    """A stream with popularity and locality: time "t" counts from 0, key "k" comes and goes in clusters.

    Over the whole stream a key is as frequent as its Zipf(`skew`) rank says. The gaps between rows of the
    same key follow a Pareto distribution with shape `alpha`: the smaller it is, the more a key's rows crowd
    together between few long silences; a large one spreads them evenly. `ranking` is the seed that decides
    which keys are popular: streams with the same one share their popular keys, whatever their other seed.

    Each key walks once around a circle in Pareto steps, from a random start; the rows of all keys, in the
    order of their places on the circle, are the stream.
    """
    rows, keys = whole(rows, "rows"), whole(keys, "keys", least=1)
    rank = _rng(ranking).permutation(keys)
    return _steps(rank[_clustered(rows, keys, number(skew, "skew"), _shape(alpha, "alpha"), _rng(seed))])


def locality_pair(
    rows: int,
    keys: int = 100,
    alpha: float = 0.75,
    shape: float = 0.75,
    correlation: str = "correlated",
    seed: int = 0,
) -> tuple[pa.Table, pa.Table]:
    """Two streams with popularity and locality, one row each per step: time "t" counts from 0, key "k".

    Over the whole stream the key of rank r has a share proportional to r ** -`alpha`. The gaps between rows of one key
    follow a Pareto distribution with `shape` (see `locality_stream`): the smaller, the more they crowd together. Each
    stream draws its own gaps. With correlation "correlated" both rank the keys alike, with "anticorrelated" the
    popular keys of one are the other's rarest, and with "uncorrelated" each ranks them at random.

    >>> left, right = locality_pair(rows=1000, seed=7)
    >>> left.num_rows, right.column_names
    (1000, ['t', 'k'])
    """
    rows, keys = whole(rows, "rows"), whole(keys, "keys", least=1)
    one_of(correlation, CORRELATIONS, "correlation")
    rng = _rng(seed)
    ranks = _ranks(keys, correlation, rng)
    left, right = (
        _steps(rank[_clustered(rows, keys, number(alpha, "alpha"), _shape(shape, "shape"), rng)]) for rank in ranks
    )
    return left, right


def _shape(value: float, what: str) -> float:
    """The shape of a Pareto distribution."""
    if number(value, what) == 0:
        raise SpecError(f"{what} must be larger than 0")
    return value


def _ranks(keys: int, correlation: str, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Which key has which rank, on each of two streams."""
    left = rng.permutation(keys)
    other = rng.permutation(keys)  # drawn in every case, so that the left stream does not depend on the correlation
    return left, {"uncorrelated": other, "correlated": left, "anticorrelated": left[::-1]}[correlation]


def _clustered(rows: int, keys: int, skew: float, alpha: float, rng: np.random.Generator) -> Ints:
    """Ranks with Zipf(`skew`) popularity, each in clusters by Pareto gaps of shape `alpha`."""
    counts = rng.multinomial(rows, _zipf(keys, skew))
    owner = np.repeat(np.arange(keys), counts)
    # A Pareto gap is u ** (-1 / alpha). In logarithms, and over the key's largest gap, nothing overflows.
    logs = rng.standard_exponential(rows) / alpha
    largest = np.zeros(keys)
    np.maximum.at(largest, owner, logs)
    gaps = np.exp(logs - largest[owner])
    walked = np.cumsum(gaps)
    before = np.concatenate(([0.0], walked))[np.cumsum(counts) - counts]
    around = np.bincount(owner, weights=gaps, minlength=keys)
    place = ((walked - before[owner]) / around[owner] + rng.random(keys)[owner]) % 1.0
    return owner[np.argsort(place, kind="stable")]


def bursty_pair(
    rows: int,
    keys: int = 1_000,
    skew: float = 1.0,
    burst: float = 8.0,
    seconds: float = 3_600.0,
    seed: int = 0,
) -> tuple[pa.Table, pa.Table]:
    """Two streams of events by users, `rows` rows each: clicks and orders of a shop with rush hours.

    Columns: time "ts" (microseconds, within `seconds` of 2024-01-01), key "user_id", payload "amount" (money,
    to the cent) and "page" (text). The arrival rate of both streams switches between calm and `burst` times
    calm, about 40 times in all, with calm five times as long; 1 means no bursts. Half of all rows come from
    users whose Zipf(`skew`) popularity lasts, half from a crowd that is ranked anew with every switch:
    popularity, and locality.

    >>> clicks, orders = bursty_pair(rows=100, seed=1)
    >>> clicks.schema.field("ts").type, orders.column_names
    (TimestampType(timestamp[us]), ['ts', 'user_id', 'amount', 'page'])
    """
    rows, keys = whole(rows, "rows"), whole(keys, "keys", least=1)
    if number(burst, "burst") < 1:
        raise SpecError(f"burst is the rate of a burst over the rate of calm: at least 1, got {burst}")
    if not 0 < number(seconds, "seconds") <= 1e10:
        raise SpecError(f"seconds must be larger than 0 and at most 1e10 (about 300 years), got {seconds}")
    rng = _rng(seed)
    probabilities = _zipf(keys, number(skew, "skew"))
    share, spell = _arrivals(2 * rows, burst, rng)
    rank = _draw(probabilities, 2 * rows, rng)
    crowd = rng.permutation(keys)[(rank + rng.integers(keys, size=_SPELLS)[spell]) % keys]
    users = np.where(rng.random(2 * rows) < 0.5, rng.permutation(keys)[rank], crowd)
    times = (share * (seconds * 1e6)).astype(np.int64)
    in_left = np.zeros(2 * rows, np.bool_)
    in_left[rng.permutation(2 * rows)[:rows]] = True
    left, right = (_events(times[side], users[side], rng) for side in (in_left, ~in_left))
    return left, right


def _rng(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(whole(seed, "seed")))


def _zipf(keys: int, z: float) -> Floats:
    """The probability of each rank."""
    weights = np.arange(1, keys + 1, dtype=np.float64) ** -float(z)
    return np.asarray(weights / weights.sum())


def _draw(probabilities: Floats, rows: int, rng: np.random.Generator) -> Ints:
    """Independent ranks by inverting the cumulative distribution."""
    return np.searchsorted(np.cumsum(probabilities)[:-1], rng.random(rows), side="right")


def _steps(keys: Ints) -> pa.Table:
    return pa.table({"t": np.arange(len(keys), dtype=np.int64), "k": keys.astype(np.int64)})


_SPELLS = 40  # calm and burst in turn


def _arrivals(rows: int, burst: float, rng: np.random.Generator) -> tuple[Floats, Ints]:
    """When rows arrive, as shares of the whole span in ascending order, and in which spell of calm or burst.

    Given their number, the arrivals of a process with a changing rate are independent draws whose density is
    the rate: uniform draws on the area under the rate, taken back to time.
    """
    lengths = rng.standard_exponential(_SPELLS) * np.tile([5.0, 1.0], _SPELLS // 2)
    ends = np.concatenate(([0.0], np.cumsum(lengths)))
    area = np.concatenate(([0.0], np.cumsum(lengths * np.tile([1.0, burst], _SPELLS // 2))))
    drawn = np.sort(rng.random(rows)) * area[-1]
    return np.interp(drawn, area, ends) / ends[-1], np.searchsorted(area[1:-1], drawn, side="right")


def _events(times: Ints, users: Ints, rng: np.random.Generator) -> pa.Table:
    rows = len(times)
    amount = np.round(np.exp(rng.normal(3.0, 1.0, rows)), 2)
    pages = pa.array([f"/item/{i}" for i in range(200)])
    columns: dict[str, Any] = {
        "ts": pa.array(START + times.astype("timedelta64[us]"), pa.timestamp("us")),
        "user_id": users.astype(np.int64),
        "amount": amount,
        "page": pages.take(pa.array(_draw(_zipf(200, 1.0), rows, rng))),
    }
    return pa.table(columns)
