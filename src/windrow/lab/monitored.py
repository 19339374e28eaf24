"""Monitors while k changes: how what they find follows the streams, and what is lost meanwhile (figures 5, 7 and 9).

k is flat, rises and drops slowly, then rises and drops at once. After every block of rows it is noted which distances
came in the block (the true k), which ones the monitor has seen, whether rows are released by it, and how many matches
are missing of those that SWJ gives for the same block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.analysis.adherence import clustering_distances, join_distances, scrambling_distances
from windrow.engine import Engine
from windrow.lab.constrained import Edge, Knob
from windrow.lab.experiment import Conditions, Point
from windrow.lab.figures import Figures, Row
from windrow.lab.kmon_joins import MORE, SWJ, WINDOW, Join, Tables, smaller
from windrow.lab.pictures import Panel
from windrow.lab.verdict import Cells, Check, at_least, at_most, tell
from windrow.spec import Clustered, Integrity, Monitored, Ordered

Ints = NDArray[np.int64]
Watched = Integrity | Clustered | Ordered

ROWS, BLOCK = 1_200_000, 4_000
LEAST, MOST = 500, 2_000  # k
SPELLS = {
    "flat": (0.0, 0.15), "slow rise": (0.15, 0.3), "flat, high": (0.3, 0.45), "slow drop": (0.45, 0.55),
    "flat, again": (0.55, 0.7), "after a quick rise": (0.7, 0.85), "after a quick drop": (0.85, 1.0),
}  # of the rows  # fmt: skip
SHAPE = ((0.0, 0), (0.15, 0), (0.3, 1), (0.45, 1), (0.55, 0), (0.7, 0), (0.7, 1), (0.85, 1), (0.85, 0), (1.0, 0))
BEGINNING = 0.05  # of the rows: monitors have to see k before they can follow it
RISING = ((0.15, 0.3), (0.7, 0.75))  # with the time it takes until what has waited for long is through

CLOSE, OFTEN = 0.1, 0.9  # the estimate lies within a tenth of k in nine of ten blocks
HALF = 0.5  # of the blocks in which k is flat: the constraint is used, not only watched
NEAR_ZERO = 0.001  # of the matches


def changing(conditions: Conditions) -> Knob:
    """k over the rows that are generated, a few more than those that are taken."""
    low, high = smaller(conditions, LEAST), smaller(conditions, MOST)
    return tuple((share / MORE, low + (high - low) * level) for share, level in SHAPE)


@dataclass(frozen=True)
class Tracking:
    """A figure that shows a monitor at work.

    `join` makes the streams from the edge of each parent, `edge` an edge whose k changes; `watched` are the constraints
    that are followed, of all that the monitor finds. `lost` is what the paper lets a block lose while k rises.
    """

    join: Callable[[Sequence[Edge], int, int, int], Join]
    edge: Callable[[Knob], Edge]
    monitored: Monitored
    watched: Sequence[Watched]
    lost: float

    def sweep(self, conditions: Conditions) -> list[Point]:
        """One stream, in which k changes."""
        return [{"shape": "flat, slow and quick"}]

    def measure(self, point: Point, seed: int, conditions: Conditions) -> Iterator[Row]:
        """A row for each block, and for each constraint in it."""
        rows, block = smaller(conditions, ROWS), smaller(conditions, BLOCK)
        join = self.join([self.edge(changing(conditions))] * 2, seed, rows, smaller(conditions, WINDOW))
        monitored = self.monitored.with_(most=smaller(conditions, self.monitored.most))
        plain = Engine(join.query, _schemas(join.tables), recall=False, count_only=True)
        mine = Engine(join.query.with_(constraints=monitored), _schemas(join.tables), recall=False, count_only=True)
        true = {_text(one): _largest(one, join.tables, block) for one in self.watched}
        for number, part in enumerate(join.slices(rows // block)):
            before = plain.metrics.matched, mine.metrics.matched
            plain.push(part)
            mine.push(part)
            all_rows, now = plain.metrics, mine.metrics
            place = {"taken": (number + 1) * block, "share": (number + 1) * block / rows}
            yield {
                "part": "block", **place, "matched": all_rows.matched - before[0],
                "missed": all_rows.matched - before[0] - (now.matched - before[1]),
                f"{SWJ} bytes": all_rows.resident_bytes, "bytes": now.resident_bytes,
            }  # fmt: skip
            for text, largest in true.items():
                known = now.constraints[text]
                yield {
                    "part": "estimate", **place, "constraint": text, "k": int(largest[number]), "seen": known.seen,
                    "used": int(known.used), "violations": known.violations,
                }  # fmt: skip

    def judge(self, found: Figures) -> list[Check]:
        """The estimate is close, it is used, and little is lost."""
        known = Figures([row for row in found.where(part="estimate").rows if row["share"] > BEGINNING])
        blocks = found.where(part="block")
        flat = Figures([row for row in known.rows if _spell(row).startswith("flat")])
        still = Figures([row for row in blocks.rows if not _rises(row)])
        cells = list(known.cells("constraint"))
        return [
            at_least(
                f"the estimate lies within {CLOSE:.0%} of the largest distance that came, in {OFTEN:.0%} of the blocks",
                cells, _is_close, OFTEN,
            ),
            at_least(
                f"where k is flat the constraint is used in {HALF:.0%} of the blocks", list(flat.cells("constraint")),
                "used", HALF,
            ),
            at_most(
                f"where k does not rise at most {NEAR_ZERO:.1%} of the matches are missed",
                _missed(still, "not rising"), "missed", NEAR_ZERO, ".3%",
            ),
            _worst(blocks, self.lost),
            tell("missed of all matches", _missed(blocks, "all rows"), "missed", ".4%"),
            tell("bytes over SWJ's, in the mean over blocks", list(blocks.cells("part")),
                 lambda row: row["bytes"] / row[f"{SWJ} bytes"]),
            *(_of_spell(known, spell) for spell in SPELLS),
        ]  # fmt: skip

    def draw(self, found: Figures) -> list[Panel]:
        """k and its estimate, what was missed, and memory, of the first seed."""
        first = found.where(seed=0)
        known = first.where(part="estimate", constraint=_text(self.watched[0]))
        blocks = first.where(part="block")
        estimates = {
            "k of the stream": known.curve("taken", "k"),
            "estimate, 0 while it rests": known.curve("taken", lambda row: row["seen"] * row["used"]),
        }
        missed = {"missed": blocks.curve("taken", lambda row: row["missed"] / max(1, row["matched"]))}
        held = {
            SWJ: blocks.curve("taken", lambda row: row[f"{SWJ} bytes"] / 1e6),
            "monitored": blocks.curve("taken", lambda row: row["bytes"] / 1e6),
        }
        return [
            Panel(_text(self.watched[0]), "rows taken", "k", estimates),
            Panel(f"per block of {BLOCK:,} rows", "rows taken", "matches that are missed", missed, percent=True),
            Panel("memory", "rows taken", "megabytes held", held, log_y=True),
        ]


def _schemas(tables: Tables) -> dict[str, pa.Schema]:
    return {name: table.schema for name, table in tables.items()}


def _text(constraint: Watched) -> str:
    """A constraint as metrics name it."""
    return str(constraint).partition(" within ")[0]


def _largest(one: Watched, tables: Tables, block: int) -> Ints:
    """The largest distance that could be seen in each block: a distance is known when its last row comes."""
    distances, moments = _distances(one, tables)
    largest = np.zeros(max(table["t"].to_numpy().max(initial=0) for table in tables.values()) // block + 1, np.int64)
    np.maximum.at(largest, moments // block, distances)
    return largest


def _distances(one: Watched, tables: Tables) -> tuple[Ints, Ints]:
    """Distances of a constraint, and when each is known."""
    if isinstance(one, Integrity):
        parent, child = tables[one.parent], tables[one.child]
        column = child.column_names[1]
        keys, times = (child[name].to_numpy() for name in (column, "t"))
        found = join_distances(parent[column].to_numpy(), np.searchsorted(times, parent["t"].to_numpy()), keys)
        last = np.zeros(int(keys.max()) + 1, np.int64)
        last[keys] = times
        return found, np.maximum(last[parent[column].to_numpy()], parent["t"].to_numpy())
    times, keys = (tables[one.stream][name].to_numpy() for name in ("t", "A"))
    if isinstance(one, Ordered):
        return scrambling_distances(keys), times
    last = np.unique(keys[::-1], return_index=True)[1]
    return clustering_distances(keys), times[::-1][last]


def _spell(row: Row) -> str:
    return next(name for name, (start, end) in SPELLS.items() if start < row["share"] <= end + 1e-9)


def _rises(row: Row) -> bool:
    return any(start < row["share"] <= end for start, end in RISING)


def _is_close(row: Row) -> float:
    return float(abs(row["seen"] - row["k"]) <= CLOSE * row["k"])


def _missed(blocks: Figures, label: str) -> Cells:
    """One row for each seed: missed matches over matches."""
    rows = []
    for _, part in blocks.cells("seed"):
        missed, matched = (sum(row[name] for row in part.rows) for name in ("missed", "matched"))
        rows.append({"seed": part.rows[0]["seed"], "missed": missed / max(1, matched)})
    return [(label, Figures(rows))]


def _worst(blocks: Figures, lost: float) -> Check:
    """No block of any run loses more."""
    worst = max(row["missed"] / max(1, row["matched"]) for row in blocks.rows)
    least = min(row["missed"] for row in blocks.rows)
    missing = [_spell(row) for row in blocks.rows if row["missed"]]
    holds = least >= 0 and worst <= lost
    told = ", ".join(f"{missing.count(spell)} {spell}" for spell in SPELLS if spell in missing)
    return Check(
        f"no block of {BLOCK:,} rows misses more than {lost:.1%} of its matches, and none gives more than SWJ",
        holds,
        f"{worst:.2%} in the worst block; {len(missing):,} of {len(blocks.rows):,} blocks miss any",
        why="" if holds else f"blocks that miss any: {told}, where k is {MOST // LEAST} times what it was, at once",
    )


def _of_spell(known: Figures, spell: str) -> Check:
    """How a spell went, in the mean over constraints."""
    part = Figures([row for row in known.rows if _spell(row) == spell])
    used, close = part.mean("used"), part.mean(_is_close)
    return Check(f"{spell}: used, and close", None, f"{used:.0%} and {close:.0%} of the blocks", aside=True)
