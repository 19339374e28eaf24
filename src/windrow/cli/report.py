"""What commands show: progress while they work, and what came out of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from windrow.spec.durations import Duration
from windrow.state.coding_numbers import NANOSECONDS

if TYPE_CHECKING:
    from windrow.engine import Metrics

COUNTERS = ("arrived", "shed", "late", "ignored", "expired", "released", "resident_rows")
BROKEN = (
    "a constraint by which rows were released does not hold: matches are missing, perhaps many more than violations "
    "were seen. --on-violation demote finds them; --constraints auto relies on what holds"
)
IN_TIME = ", in time"  # behind a constraint whose k is a length of time
SECOND = 10**9
WIDE = 200  # characters, where no terminal says how many there are
DEMOTED = {"rows": "demoted to disk", "found": "found on disk", "dropped": "dropped from disk"}


def screen() -> Console:
    """Where results are shown: on a terminal as wide as that is, and else as wide as they are."""
    console = Console()
    return console if console.is_terminal else Console(width=WIDE)


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
    tick: Duration  # a unit of the streams' times
    speed: str = "rows per second"

    @property
    def rows_per_second(self) -> float:
        """Rows of all streams, joined and written, per second."""
        return self.metrics.arrived / max(self.seconds, 1e-9)

    def to_dict(self) -> dict[str, object]:
        """Everything as plain data."""
        own = {"memory": self.memory, "output": self.output, "seconds": round(self.seconds, 6)}
        return {**self.metrics.to_dict(), **own, "rows_per_second": round(self.rows_per_second)}

    def tables(self) -> list[Table]:
        """What is shown in the end: the counters, and what is known of constraints, if there are any."""
        return [self.table(), *([constraints(self.metrics, self.tick)] if self.metrics.constraints else [])]

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
        table.add_row(self.speed, *blank, f"{self.rows_per_second:,.0f}")
        return table


def constraints(metrics: Metrics, tick: Duration) -> Table:
    """Each constraint: whether rows are released by it, with which k, the largest distance, and what came of it."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("constraint")
    for name in ("used", "k", "seen", "measured", "violations", "released"):
        table.add_column(name, justify="right", no_wrap=True)
    for text, known in metrics.constraints.items():
        figures = (known.measured, known.violations, known.released)
        told, timed = text.removesuffix(IN_TIME), text.endswith(IN_TIME)
        if " within " in text:  # one of several that differ in k alone
            timed = not text.endswith(" rows")
        k, seen = ("", "") if known.k is None else (_distance(n, timed, tick) for n in (known.k, known.seen))
        seen = seen if known.measured else ""
        table.add_row(told, "yes" if known.used else "no", k, seen, *(f"{figure:,}" for figure in figures))
    if any(known.released and known.violations for known in metrics.constraints.values()):
        table.caption = BROKEN
    return table


def _distance(amount: int, timed: bool, tick: Duration) -> str:
    """A distance between rows of a constraint, in rows or as a length of time."""
    if not timed:
        return f"{amount:,} row{'s' * (amount != 1)}"
    length = Duration(amount * tick.amount, tick.unit)
    parts = length.unit == "ns" and length.amount > SECOND and length.amount % SECOND
    return f"{length.amount / SECOND:,.3f} s" if parts else str(length)


def tick_of(unit: str) -> Duration:
    """The unit in which an engine counts times: a name such as "us", or "steps"."""
    return Duration(1, "steps") if unit == "steps" else Duration(NANOSECONDS[unit])


def recall(metrics: Metrics) -> str:
    """Recall with its interval, which is left out where it has no width."""
    if metrics.recall is None:
        return "not known"
    text = f"{metrics.recall:.1%}"
    if metrics.recall_interval is None or metrics.recall_interval[0] == metrics.recall_interval[1]:
        return text
    low, high = metrics.recall_interval
    return f"{text} ({low:.1%} to {high:.1%})"
