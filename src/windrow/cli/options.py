"""The arguments and options of `windrow join`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def _option(*names: str, help: str, kind: str | None = None, show: bool = False) -> Any:
    return typer.Option(*names, help=help, metavar=kind, show_default=show)


File = Annotated[
    Path,
    typer.Argument(help="A .parquet, .csv, .tsv or .jsonl file, or a directory of Parquet files.", show_default=False),
]

_ON = (
    "Column that both files have, or a condition: 'left.id = right.user', 'left.x < right.y', "
    "'|left.x - right.y| <= 5'. May be repeated: all must hold."
)
On = Annotated[list[str], _option("--on", kind="KEY", help=_ON)]

_OUT = "File to write, .parquet, .csv, .tsv or .jsonl. It appears when all is written."
Output = Annotated[Path, _option("--output", "-o", kind="FILE", help=_OUT)]

_TIME = "Event-time column: times, or whole numbers. Without one, row numbers are the time."
Time = Annotated[str | None, _option("--time", kind="COLUMN", help=_TIME)]
LeftTime = Annotated[str | None, _option("--left-time", kind="COLUMN", help="The same, for the left file only.")]
RightTime = Annotated[str | None, _option("--right-time", kind="COLUMN", help="The same, for the right file only.")]

_WITHIN = (
    "Window: '10m', '1h 30m', or a number of steps for whole-number times. Rows exactly that far apart do not match. "
    "Without one, no bound."
)
Within = Annotated[str | None, _option("--within", kind="DURATION", help=_WITHIN)]
LeftWithin = Annotated[
    str | None, _option("--left-within", kind="DURATION", help="The same, for rows of the left file only.")
]
RightWithin = Annotated[
    str | None, _option("--right-within", kind="DURATION", help="The same, for rows of the right file only.")
]

_MEMORY = (
    "Budget: 64MB, 1000 (rows), or 20% of the rows that the exact join holds at its peak, which is counted first. "
    "Without one, the join is exact."
)
Memory = Annotated[str | None, _option("--memory", kind="BUDGET", help=_MEMORY)]

_POLICY = "What to shed when memory is full: auto, rand, fifo, prob, life, life-expected, gdj or age."
Policy = Annotated[str, _option("--policy", kind="NAME", help=_POLICY, show=True)]

_STATISTICS = (
    "What the policy decides by: running, decayed:half_life=5000, sketch:width=4096,depth=4, or oracle "
    "(which looks ahead). Without it, the policy's own."
)
Statistics = Annotated[str | None, _option("--statistics", kind="NAME", help=_STATISTICS)]

_LATENESS = (
    "How far rows may be out of order: files are then taken in file order, and later rows are counted "
    "and left out. Without it, files are sorted by time."
)
Lateness = Annotated[str | None, _option("--lateness", kind="DURATION", help=_LATENESS)]

_TEXT = "Column to read as text, in whichever file has it: keeps the zeros of codes such as 007. May be repeated."
Text = Annotated[list[str] | None, _option("--text", kind="COLUMN", help=_TEXT)]

_SEPARATOR = "What parts the columns of .csv inputs, if that is no comma: ';' in all, or in one by its name, right=';'."
Separator = Annotated[list[str] | None, _option("--separator", kind="CHARACTER", help=_SEPARATOR)]

Utc = Annotated[bool, _option("--utc", help="Take event times without a zone as UTC, to join them with zoned ones.")]

_SELECT = "Output columns: 'left.a, right.b as c'. Without it, all."
Select = Annotated[list[str] | None, _option("--select", kind="COLUMNS", help=_SELECT)]

_WHERE = "Rows that take part: 'left.x > 5', \"right.page in ('/a', '/b')\". May be repeated."
Where = Annotated[list[str] | None, _option("--where", kind="CONDITION", help=_WHERE)]

_FULL = "What to do when memory is full."
OnFull = Annotated[str, _option("--on-full", kind="shed|fail", help=_FULL, show=True)]
_SAMPLE = (
    "Leave rows out of memory before the policy chooses: the probability of it, or unbiased, for as much as lets rows "
    "stay until they expire."
)
Sample = Annotated[str | None, _option("--sample", kind="P", help=_SAMPLE)]

_CONSTRAINTS = (
    "What is known about the files, so that rows that cannot match any more are released: 'left is unique on id', "
    "'left -> right within 100 rows', 'left is clustered on id within 5 s', 'left is ordered on id within 0 rows'; may "
    "be repeated. Or auto, for what is found by watching them (auto:margin=1.5), or watch, to have that reported only."
)
Constraints = Annotated[list[str] | None, _option("--constraints", kind="WHAT", help=_CONSTRAINTS)]
_VIOLATION = (
    "What a broken constraint costs: lose the matches of released rows, which a sample of them sees "
    "(lose:sample=0.01), or demote such rows to disk, where they are found (demote:folder=DIR,disk=20GB)."
)
OnViolation = Annotated[str, _option("--on-violation", kind="lose|demote", help=_VIOLATION, show=True)]

Seed = Annotated[int, _option("--seed", help="Seed of every random choice.", show=True)]

_ENGINE = (
    "Where the join runs: embedded in this process, or spark, in a session on this machine; then the output is a "
    "folder of files, and times are sorted (no --lateness)."
)
EngineName = Annotated[str, _option("--engine", kind="embedded|spark", help=_ENGINE, show=True)]

_SHARDS = (
    "Into how many slices the join and its memory are cut, each with a core of its own. Without it one or, with "
    "--engine spark, one per core, up to 8."
)
Shards = Annotated[int | None, _option("--shards", kind="NUMBER", help=_SHARDS)]
NoRecall = Annotated[bool, _option("--no-recall", help="Do not estimate recall.")]
AsJson = Annotated[bool, _option("--json", help="Print the metrics as one JSON object.")]
Quiet = Annotated[bool, _option("--quiet", "-q", help="Print nothing but errors (and what --json asks for).")]
