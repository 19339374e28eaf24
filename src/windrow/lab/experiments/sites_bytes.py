"""Sites, bytes: what the best programs ship of real pairs, beside shipping everything, packed in the same way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from windrow.lab.experiment import Conditions, Experiment, Point
from windrow.lab.figures import Figures, Row, mean
from windrow.lab.pictures import Panel
from windrow.lab.sites_joins import PAPER
from windrow.lab.sites_pairs import PAIRS, Pair, pair
from windrow.lab.verdict import Check, at_most, inside, tell
from windrow.sites import Link, Plan, plan, simulate
from windrow.sites.programs import EVERY, PROGRAMS

SITES = {"left": "A", "right": "B"}
LINK = Link("25 ms", "10 Mbit/s")
NEAR = (0.9, 1.1)
EVERYTHING = "everything"


def sweep(conditions: Conditions) -> list[Point]:
    """All pairs of the data directory; without one, a generated pair."""
    names = list(PAIRS) if conditions.data is not None else ["generated"]
    return [{"pair": name} for name in (names[:1] if conditions.quick else names)]


def measure(point: Point, seed: int, conditions: Conditions) -> Iterator[Row]:
    """Bytes of shipping all rows of one stream, by the paper's best programs, and by the best of all."""
    one = _generated() if conditions.data is None else pair(conditions.data, point["pair"])
    everything, site = min((_shipped(one, found), site) for site, found in _mirrors(one).items())
    row: dict[str, Any] = {EVERYTHING: everything, "what": one.what}
    matched = 0
    for name, programs in (("paper", tuple(PROGRAMS)), ("with filters", tuple(EVERY))):
        found = plan(one.query(), SITES, LINK, samples=one.tables, interval=one.interval, objective="bytes",
                     programs=programs, origin=_origin(one), result_at=site)  # fmt: skip
        ran = simulate(found, one.tables, LINK)
        matched = ran.table.num_rows
        sequences = dict(found.plan.sequences)
        row |= {name: ran.bytes, f"{name} told": found.bytes * ran.seconds}
        row[f"{name} programs"] = " and ".join(leg.program for legs in sequences.values() for leg in legs)
    yield row | {"matches": matched, "rows": one.left.num_rows + one.right.num_rows}


def _origin(one: Pair) -> int:
    return min(int(t["t"][0].value) for t in one.tables.values())


def _mirrors(one: Pair) -> dict[str, Plan]:
    """All rows of one stream go to the other's site, which joins: by that site."""
    ways = {"B": ("SP-D", "SP-S"), "A": ("SP-S", "SP-D")}
    return {
        site: Plan(one.query(), SITES, {"left": [("right", to)], "right": [("left", back)]}, one.interval,
                   origin=_origin(one), result_at=site)
        for site, (to, back) in ways.items()
    }  # fmt: skip


def _shipped(one: Pair, found: Plan) -> int:
    return simulate(found, one.tables, LINK).bytes


def _generated() -> Pair:
    import numpy as np
    import pyarrow as pa

    tables: list[pa.Table] = []
    for side in range(2):
        random = np.random.default_rng(side)
        time = np.sort(random.integers(0, 200_000_000, 4000))
        text = [f"{v:x}" * 4 for v in random.integers(0, 2**60, 4000)]
        key = random.integers(0, 50_000, 4000)
        tables.append(pa.table({"t": pa.array(time).cast(pa.timestamp("us")), "k": key, "text": text}))
    return Pair(tables[0], tables[1], ("k",), "60 seconds", "5 seconds", "generated: 50,000 keys, 64 bytes of text")


def judge(found: Figures) -> Sequence[Check]:
    """Never more than everything, and as many bytes as were told."""
    cells = list(found.cells("pair"))
    return [
        at_most(
            "the best plan ships no more than everything", cells, lambda row: row["with filters"] / row[EVERYTHING], 1.0
        ),
        inside(
            "bytes are within 10 % of those told by the model",
            cells,
            lambda row: row["with filters told"] / row["with filters"],
            *NEAR,
        ),
        tell(
            "bytes by the paper's programs, of those of everything", cells, lambda row: row["paper"] / row[EVERYTHING]
        ),
        *(_line(name, part) for name, part in cells),
    ]


def _line(name: str, part: Figures) -> Check:
    row = part.rows[0]
    told = (
        f"{row[EVERYTHING]:,} bytes; {row['paper']:,} by {row['paper programs']}; {row['with filters']:,} by "
        f"{row['with filters programs']}; {row['rows']:,} rows, {row['matches']:,} matches"
    )
    return Check(row["what"], None, told, aside=True)


def draw(found: Figures) -> list[Panel]:
    """Bytes of each pair, as shares of everything."""
    lines = ("paper", "with filters")
    curves = {
        line: [(float(k), mean([row[line] / row[EVERYTHING]])) for k, row in enumerate(found.rows)] for line in lines
    }
    names = ", ".join(f"{k} {row['pair']}" for k, row in enumerate(found.rows))
    return [Panel("bytes of the best plan, of those of everything", names, "share", curves, percent=True)]


def source(conditions: Conditions) -> str:
    """What the pairs are."""
    return "real pairs of the data directory" if conditions.data else "a generated pair"


EXPERIMENT = Experiment(
    id="sites-bytes",
    paper=PAPER,
    place="beyond, section 7",
    claim="Semijoins and filters ship less than everything where few rows match, and the model says how much",
    setting="two sites, whole rows, up to 20,000 rows a stream, plans for the fewest bytes; everything: all rows of "
    "one stream, the one that packs smaller; all results at one site; zstd for both",
    sweep=sweep, measure=measure, judge=judge, draw=draw, source=source, seeds=1, real=True,
)  # fmt: skip
