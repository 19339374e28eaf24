"""`windrow compile`: compiles the kernels of joins before the first one runs, for images and for CI."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from windrow.errors import WindrowError

if TYPE_CHECKING:
    from rich.console import Console

    from windrow.rehearsal import Case, Others

_POLICY = "Only joins under this policy, or exact ones (exact). May be repeated; without it, all."
_STREAMS = "Only joins of so many streams: 2, or more; without it, both kinds."
_JOBS = "Processes side by side; without it, one per core, up to 4."


def compile(
    policy: Annotated[list[str] | None, typer.Option("--policy", metavar="NAME", help=_POLICY)] = None,
    streams: Annotated[int | None, typer.Option("--streams", metavar="NUMBER", min=2, help=_STREAMS)] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", metavar="NUMBER", min=1, help=_JOBS)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was done as one JSON object.")] = False,
) -> None:
    """Compile joins before the first one runs.

    Every kind of join is compiled once per machine, when it first runs. This does it ahead: in an image, or before
    tests. It runs tiny joins of every kind, and compiles only what is not there yet.

    Example:  windrow compile --policy prob --streams 2
    """
    from rich.console import Console

    from windrow.kernels.compiled import FOLDER, numba_config
    from windrow.rehearsal import cases

    if numba_config.DISABLE_JIT:
        raise WindrowError("NUMBA_DISABLE_JIT is set, so that nothing is compiled: unset it")
    chosen = cases([name.lower() for name in policy or ()], streams)
    if FOLDER is None:
        raise WindrowError(
            "there is no folder for compiled kernels that can be written to: name one in NUMBA_CACHE_DIR"
        )
    seconds = _run(chosen, jobs or min(os.cpu_count() or 1, 4), Console(stderr=True))
    files = list(FOLDER.rglob("*.nbc"))
    size = sum(path.stat().st_size for path in files)
    if as_json:
        known = {"folder": str(FOLDER), "bytes": size, "functions": len(files), "seconds": seconds}
        typer.echo(json.dumps(known))
    else:
        typer.echo(f"{len(files):,} compiled functions, {size / 1e6:.1f} MB, in {FOLDER}")


def _run(chosen: list[Case | Others], processes: int, errors: Console) -> dict[str, float]:
    """Run all cases in so many processes; the seconds that each took.

    The cases of one policy have most kernels in common: one process runs them one after the other.
    """
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import active_children, get_context

    seconds: dict[str, float] = {}
    fresh = get_context("spawn")  # a fork would begin with what this process has loaded
    alike = [list(group) for _, group in groupby(chosen, lambda case: case.policy)]
    with _shown(errors, len(chosen)) as show, ProcessPoolExecutor(min(processes, len(alike)), fresh, _quiet) as pool:
        try:
            for done in as_completed([pool.submit(_timed, group) for group in alike]):
                for name, took in done.result():
                    seconds[name] = round(took, 1)
                    show(f"{name}: {took:.1f} s")
        except BaseException:
            for child in active_children():
                child.terminate()
            raise
    return seconds


@contextmanager
def _shown(errors: Console, cases: int) -> Iterator[Callable[[str], None]]:
    """Progress: a bar, or a line for each case where nobody watches."""
    from windrow.cli.report import progress

    with progress(errors, cases, "compiling") as advance:

        def show(line: str) -> None:
            if not errors.is_terminal:
                errors.print(line, highlight=False, soft_wrap=True)
            advance(1)

        yield show


def _quiet() -> None:
    """In a process of its own: what it does is shown here."""
    from windrow.kernels.notice import NOTICE

    NOTICE.say = lambda line: None


def _timed(group: list[Case | Others]) -> list[tuple[str, float]]:
    found = []
    for case in group:
        started = perf_counter()
        case.run()
        found.append((str(case), perf_counter() - started))
    return found
