"""What commands show: progress while they work, and what came out of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from windrow.engine import Metrics

COUNTERS = ("arrived", "shed", "late", "ignored", "expired", "released", "resident_rows")
BROKEN = (
    "a constraint by which rows were released does not hold: matches are missing, perhaps many more than violations "
    "were seen. --on-violation demote finds them; --constraints auto relies on what holds"
)
DEMOTED = {"rows": "demoted to disk", "found": "found on disk", "dropped": "dropped from disk"}


@contextmanager
def progress(console: Console, rows: int, label: str) -> Iterator[Callable[[int], None]]:
    """A progress bar over `rows` rows; nothing where nobody watches."""
    if not console.is_terminal:
        yield lambda done: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(label, total=rows)
        yield lambda done: bar.advance(task, done)


@dataclass(frozen=True)
class Summary:
    """What a join has done."""

    metrics: Metrics
    memory: str
    seconds: float
    output: str

    @property
    def rows_per_second(self) -> float:
        """Rows of all streams, read and joined and written, per second."""
        return self.metrics.arrived / max(self.seconds, 1e-9)

    def to_dict(self) -> dict[str, object]:
        """Everything as plain data."""
        own = {"memory": self.memory, "output": self.output, "seconds": round(self.seconds, 6)}
        return {**self.metrics.to_dict(), **own, "rows_per_second": round(self.rows_per_second)}

    def tables(self) -> list[Table]:
        """What is shown in the end: the counters, and what is known of constraints, if there are any."""
        return [self.table(), *([self.constraints()] if self.metrics.constraints else [])]

    def constraints(self) -> Table:
        """Each constraint: whether rows are released by it, with which k, and what came of it."""
        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        table.add_column("constraint")
        for name in ("used", "k", "measured", "violations", "released"):
            table.add_column(name, justify="right")
        for text, known in self.metrics.constraints.items():
            figures = (known.measured, known.violations, known.released)
            k = "" if known.k is None or " within " in text else f"{known.k:,}"  # a declared one's text has it
            table.add_row(text, "yes" if known.used else "no", k, *(f"{figure:,}" for figure in figures))
        if any(known.released and known.violations for known in self.metrics.constraints.values()):
            table.caption = BROKEN
        return table

    def table(self) -> Table:
        """The closing table: counters per stream and in all."""
        metrics = self.metrics
        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        table.add_column("")
        for name in (*metrics.streams, "all"):
            table.add_column(name, justify="right")
        blank = [""] * len(metrics.streams)
        for counter in COUNTERS:
            if counter == "released" and not metrics.constraints:
                continue
            counts = [getattr(stream, counter) for stream in metrics.streams.values()]
            label = "still held" if counter == "resident_rows" else counter
            table.add_row(label, *(f"{count:,}" for count in (*counts, sum(counts))))
            if counter == "arrived":
                table.add_row("matched", *blank, f"{metrics.matched:,}")
        for counter, label in DEMOTED.items():
            counts = [getattr(stream, counter) for stream in metrics.demoted.values()]
            if counts:
                table.add_row(label, *(f"{count:,}" for count in (*counts, sum(counts))))
        table.add_row("recall", *blank, recall(metrics), end_section=True)
        table.add_row("memory", *blank, self.memory)
        table.add_row("peak bytes", *blank, f"{metrics.peak_bytes:,}")
        table.add_row("rows per second", *blank, f"{self.rows_per_second:,.0f}")
        return table


def recall(metrics: Metrics) -> str:
    """Recall with its interval, which is left out where it has no width."""
    if metrics.recall is None:
        return "not known"
    text = f"{metrics.recall:.1%}"
    if metrics.recall_interval is None or metrics.recall_interval[0] == metrics.recall_interval[1]:
        return text
    low, high = metrics.recall_interval
    return f"{text} ({low:.1%} to {high:.1%})"
