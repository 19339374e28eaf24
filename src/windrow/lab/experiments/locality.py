"""Locality: how soon keys of real streams come again, and whether one age could suit all rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from windrow.analysis.coded import Coded, coded
from windrow.analysis.locality import locality
from windrow.analysis.pairs import clustering, pair_of
from windrow.lab.experiment import Conditions, Experiment, Point
from windrow.lab.figures import Figures, Row
from windrow.lab.pictures import Panel
from windrow.lab.real_pairs import pairs
from windrow.lab.verdict import Check, at_most, tell
from windrow.spec import pair_query

PAPER = "GreedyDual-Join (GDJ), adaptive buffers for window joins"
WINDOW = 1_000
QUICK_ROWS = 1_500

FAR_BELOW = 0.5  # of the permuted stream's median
SERVED = 0.5  # of the keys: "a small percentage" is less than that
CACHE = 0.1  # of the keys: the size that the paper names


def sweep(conditions: Conditions) -> list[Point]:
    """Every pair of real streams."""
    return [{"streams": name} for name in pairs(conditions.data)]


def measure(point: Point, seed: int, conditions: Conditions) -> Iterator[Row]:
    """Medians, hit rates and ages of both streams of a pair."""
    streams = pairs(conditions.data)[point["streams"]]
    if conditions.quick:
        streams = streams.head(QUICK_ROWS)
    both = coded(pair_query("k", time="t"), {"left": streams.left, "right": streams.right})
    j = clustering(pair_of(both, WINDOW), seed).j
    for stream, partner in (both, both[::-1]):
        yield from _rows(stream, partner, seed, j)


def _rows(stream: Coded, partner: Coded, seed: int, j: float | None) -> Iterator[Row]:
    found = locality(stream, partner, WINDOW, seed)
    stack, ages = found.stack, found.ages
    assert stack.found is not None and stack.permuted is not None
    cache = next(c for c, size in enumerate(stack.capacities) if size >= CACHE * found.popularity.keys)
    yield {
        "part": "figures", "side": stream.name, "rows": stream.rows, "keys": found.popularity.keys,
        "slope": found.popularity.slope, "J": j,
        # one more than the distance: how many keys a cache must hold to have it
        "depth": stack.found.median + 1, "permuted depth": stack.permuted.median + 1,
        "hits": stack.hits[cache], "permuted hits": stack.hits_permuted[cache],
        "gap tail": found.gaps.tail or 0.0, "permuted gap tail": found.gaps.tail_permuted or 0.0,
        "served": ages.near_any, "spread": ages.keys.p90 / ages.keys.p10 if ages.keys else 1.0,
    }  # fmt: skip
    for size, hits, permuted in zip(stack.capacities, stack.hits, stack.hits_permuted, strict=True):
        share = size / found.popularity.keys
        yield {"part": "curve", "side": stream.name, "cache": share, "real": hits, "permuted": permuted}


def judge(found: Figures) -> list[Check]:
    """Half of the permuted distance, and no age that suits half of the keys."""
    cells = list(found.where(part="figures").cells("streams", "side"))
    claim = "the median stack distance is far below the permuted stream's: at most half of it"
    return [
        replace(at_most(claim, cells, _ratio, FAR_BELOW), why=_where(found)),
        at_most("no single age is within a factor of two of k_opt for half of the keys", cells, "served", SERVED),
        tell("k_opt at 90 % of the keys over k_opt at 10 %", cells, "spread", ",.0f"),
        tell(
            "hit rate of a cache of 10 % of the keys over that of the permuted stream",
            cells, lambda row: row["hits"] / row["permuted hits"], ".2f",
        ),
        tell("J, matches within 1,000 rows over those after permuting keys", cells, "J", ".2f"),
    ]  # fmt: skip


def _ratio(row: Row) -> float:
    return float(row["depth"] / row["permuted depth"])


def _where(found: Figures) -> str:
    """In which pairs it is so, and what gaps say where it is not."""
    far, near = [], []
    for name, part in found.where(part="figures", side="left").cells("streams"):
        depth, permuted = (part.mean(column).value - 1 for column in ("depth", "permuted depth"))
        text = f"{name} {depth:,.0f} of {permuted:,.0f}"
        if part.mean(_ratio).value <= FAR_BELOW:
            far.append(text)
        else:
            tails = [part.mean(column).value for column in ("gap tail", "permuted gap tail")]
            evenly = "more evenly than" if tails[0] > tails[1] else "less evenly than"
            near.append(f"{text} (keys come {evenly} by chance: gap tail {tails[0]:.1f}, permuted {tails[1]:.1f})")
    pairs_in_all = len(far) + len(near)
    return f"it is so in {len(far)} of {pairs_in_all}: {', '.join(far) or 'none'}; not in {', '.join(near) or 'any'}"


def draw(found: Figures) -> list[Panel]:
    """Hit rates over the size of a cache, a panel for each pair."""
    return [
        Panel(
            name, "cache, share of the keys", "hit rate",
            {line: part.curve("cache", line, part="curve", side="left") for line in ("real", "permuted")},
            log_x=True, percent=True,
        )
        for name, part in found.cells("streams")
    ]  # fmt: skip


EXPERIMENT = Experiment(
    id="locality",
    paper=PAPER,
    place="figs of section 2, fig 2",
    claim="real streams show stack distances far below the permuted stream's; k_opt varies widely by row",
    setting="both streams of every pair whole, window 1,000 rows for k_opt and J, keys permuted inside each stream",
    sweep=sweep, measure=measure, judge=judge, draw=draw,
    source=lambda conditions: "; ".join(streams.source for streams in pairs(conditions.data).values()),
    seeds=3, real=True,
)  # fmt: skip
