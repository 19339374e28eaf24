"""Demoted rows: what constraints have released, where a broken constraint is to cost no match.

They lie in runs, each of one stream, oldest first, the later the smaller:

    [ 90,000 rows ][ 30,000 ][ 8,000 ]  files that are mapped into memory      [ 700 ]  the young run, in memory
    pending: rows of the present push, whose payload is still in the engine's tables

A run has the words of its rows (kernels/layout.py, D_STREAM …), their payload, and for each link their order by code:
who lies under a key is found by a search in each run. A file belongs to its run and goes when nobody holds that any
longer: nothing in it is needed by a later process, for snapshots hold the rows themselves.

Charged to the budget are the filter (kernels/release/filter.py) and the young runs. Of what has expired whole runs are
dropped, and single rows when runs are merged; beyond the cap of the disk, or where the filter would take more than half
of the budget, the oldest run is dropped, and its rows are counted: matches may be missed from then on. So are rows that
the disk does not take, which is said once in the log.
"""

from __future__ import annotations

import copy
import logging
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from windrow.errors import InputError
from windrow.kernels import layout as at
from windrow.kernels.release.filter import put_all
from windrow.state.columns import places_of
from windrow.state.parts import view
from windrow.state.plan import Plan
from windrow.state.sizes import row_bytes

YOUNG_BYTES = 1 << 20  # of a young run before it goes to disk; less in small budgets
YOUNG_SHARE = 32  # one part in so many of what a budget has for rows
COLD_SHARE = 2  # one part in so many of it is the most for the filter and for young runs
RUNS_OF_CAP = 8  # no run takes more than one part in so many of the disk, so that dropping one loses little
FEW_STALE = 1 << 12  # places of the filter that are not worth filling it anew

_log = logging.getLogger("windrow")

House = Callable[[int, pa.Table], int]
"""Gives rows of payload of a stream a place among those that matches are gathered from; the first row."""


class Run:
    """Demoted rows of one stream: columns of words, payload (None while it lies elsewhere), order by code."""

    def __init__(
        self, columns: Sequence[np.ndarray], table: pa.Table | None, orders: Sequence[np.ndarray] = ()
    ) -> None:
        self.columns, self.table = list(columns), table
        self.orders = dict(enumerate(orders))
        self.disk_bytes = 0
        self.last_time, self.last_rank = (int(columns[w].max(initial=at.LOW)) for w in (at.D_TIME, at.D_RANK))
        self.last_seq = int(columns[at.D_SEQ].max(initial=0))

    def __len__(self) -> int:
        return len(self.columns[0])

    @cached_property
    def nbytes(self) -> int:
        """Bytes in memory, or in a file: of each row by itself, so the same however the rows came together."""
        return sum(c.nbytes for c in self.columns) + (0 if self.table is None else _payload_bytes(self.table))

    def codes(self, link: int) -> np.ndarray:
        """The codes of the rows by a link."""
        return self.columns[at.D_CODES + link]

    def under(self, link: int, codes: np.ndarray) -> np.ndarray:
        """Positions of the rows under some codes, which are sorted and different."""
        if link not in self.orders:
            self.orders[link] = np.argsort(self.codes(link), kind="stable")
        return places_of(self.codes(link), self.orders[link], codes)[0]

    def taken(self, rows: np.ndarray) -> Run:
        """Some of the rows, in memory."""
        return Run([c[rows] for c in self.columns], None if self.table is None else self.table.take(pa.array(rows)))

    def written(self, folder: Path, links: int) -> Run:
        """The same rows in a file of their own."""
        orders = [np.argsort(self.codes(link), kind="stable") for link in range(links)]
        own = self.table if self.table is not None else pa.table({})
        arrays = [*map(pa.array, self.columns), *map(pa.array, orders), *own.combine_chunks().columns]
        table = pa.table(arrays, names=[str(k) for k in range(len(arrays))]).combine_chunks()
        name = _file(table, folder)
        with pa.memory_map(name) as source:
            mapped = pa.ipc.open_file(source).read_all()
        words = len(self.columns)
        found = [mapped.column(k).to_numpy() for k in range(words + links)]
        payload = None
        if self.table is not None:
            payload = pa.Table.from_arrays(mapped.columns[words + links :], schema=self.table.schema)
        run = Run(found[:words], payload, found[words:])
        run.disk_bytes = os.path.getsize(name)
        weakref.finalize(run, _remove, name, os.getpid())
        return run


def _payload_bytes(table: pa.Table) -> int:
    return int(row_bytes(table, table.column_names).sum())


def _file(table: pa.Table, folder: Path) -> str:
    """Write a table into a new file, which is there whole or not at all."""
    handle, name = tempfile.mkstemp(".arrow", "run-", folder)
    try:
        with os.fdopen(handle, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=max(table.num_rows, 1))
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return name


def _remove(name: str, owner: int) -> None:
    """Remove a file or a folder; a process that was forked leaves it to the one that has made it."""
    if os.getpid() == owner:
        shutil.rmtree(name, ignore_errors=True) if os.path.isdir(name) else Path(name).unlink(missing_ok=True)


class Folder:
    """A folder of files that is removed when nobody holds it any longer."""

    def __init__(self, inside: str | None) -> None:
        if inside is not None:
            Path(inside).mkdir(parents=True, exist_ok=True)
        self.path = Path(tempfile.mkdtemp(prefix="windrow-demoted-", dir=inside))
        weakref.finalize(self, _remove, str(self.path), os.getpid())


def joined(runs: Sequence[Run]) -> Run:
    """Runs in one, in memory."""
    if len(runs) == 1:
        return runs[0]
    columns = [np.concatenate(parts) for parts in zip(*(run.columns for run in runs), strict=True)]
    tables = [run.table for run in runs if run.table is not None]
    return Run(columns, pa.concat_tables(tables).combine_chunks() if tables else None)


class Demoted:
    """The demoted rows of a shard."""

    def __init__(self, plan: Plan, folder: str | None, cap_bytes: int) -> None:
        self.folder, self.cap_bytes = folder, cap_bytes
        self.links = [int((line >= 0).sum()) for line in plan.classes]
        self.runs: list[list[Run]] = [[] for _ in self.links]  # the last of a stream is its young one, if not on disk
        self.pending: list[list[Run]] = [[] for _ in self.links]
        self.found = np.zeros(len(self.links), np.int64)  # rows that came back, by stream
        self.dropped = np.zeros(len(self.links), np.int64)  # rows that the disk had no room for
        self.matched = 0  # matches with rows that came back
        self.house: House | None = None
        self._place: Folder | None = None
        self._refused = False
        if folder is not None:
            try:
                self._made()
            except OSError as error:
                raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> InputError:
        """The error of a folder in which nothing can be kept."""
        return InputError(
            f"demoted rows cannot be kept in {self.folder or tempfile.gettempdir()!r}: {error.strerror or error}; name "
            "a folder that can be written in on_violation="
        )

    def copied(self) -> Demoted:
        """The same rows once more; what becomes of one does not concern the other."""
        other = copy.copy(self)
        other.runs, other.pending = ([list(runs) for runs in mine] for mine in (self.runs, self.pending))
        other.found, other.dropped = self.found.copy(), self.dropped.copy()
        return other

    def resume(self, stream: int, runs: Sequence[Run], on_disk: Sequence[bool]) -> None:
        """Take over the runs of a stream, which were on disk or not."""
        both = zip(runs, on_disk, strict=True)
        try:
            self.runs[stream] = [run.written(self._made(), self.links[stream]) if lay else run for run, lay in both]
        except OSError as error:
            raise self._unwritable(error) from None

    def count(self, found: np.ndarray, dropped: np.ndarray) -> None:
        """Go on counting from here."""
        self.found, self.dropped = found, dropped

    # -- on their way down ---------------------------------------------------------------------------------------------

    def add(self, rows: np.ndarray) -> None:
        """Take rows that a shard has demoted, [row, word], whose payload lies in the tables of the present push."""
        for stream, pending in enumerate(self.pending):
            mine = rows[rows[:, at.D_STREAM] == stream]
            if len(mine):
                pending.append(Run(list(np.ascontiguousarray(mine.T)), None))
            while len(pending) > 1 and len(pending[-2]) < 2 * len(pending[-1]):
                pending[-2:] = [joined(pending[-2:])]

    def settle(self, words: np.ndarray, plan: Plan, payloads: Sequence[pa.Table] | None) -> None:
        """The end of a push: take over the payload of pending rows, write what is enough for a file, and forget what
        has expired."""
        for stream, pending in enumerate(self.pending):
            if pending:
                run = joined(pending)
                if payloads is not None and payloads[stream].num_columns:
                    run.table = payloads[stream].take(pa.array(run.columns[at.D_ROW]))
                run.columns[at.D_ROW] = np.zeros(len(run), np.int64)  # from now on its payload is its own
                self._keep(stream, run, words, plan)
                pending.clear()
        self._forget(words, plan)
        if words[at.Head.filter_used] > 2 * self.entries + FEW_STALE:
            self.refill(words, plan)
        while self._due(words) > plan.cap_bytes[0] // COLD_SHARE and any(self.runs):
            self._drop_oldest(on_disk=False)
            self.refill(words, plan)
        self.charge(words, plan)
        self.house = None

    def _keep(self, stream: int, run: Run, words: np.ndarray, plan: Plan) -> None:
        """Add rows to the young run of a stream, and put that on disk if it is large."""
        runs = self.runs[stream]
        if runs and not runs[-1].disk_bytes:
            run = joined([runs.pop(), run])
        if run.nbytes <= min(YOUNG_BYTES, plan.cap_bytes[0] // YOUNG_SHARE):
            runs.append(run)
            return
        young, older = run, list(runs)
        while runs and len(runs[-1]) < 2 * len(run) and runs[-1].nbytes + run.nbytes <= self.cap_bytes / RUNS_OF_CAP:
            last = runs.pop()
            fresh = np.flatnonzero(~expired(last, stream, words, plan))
            run = joined([last if len(fresh) == len(last) else last.taken(fresh), run])
        try:
            runs.append(run.written(self._made(), self.links[stream]))
        except OSError as error:
            runs[:] = older
            self._refuse(stream, young, error)

    def _refuse(self, stream: int, run: Run, error: OSError) -> None:
        """Count rows that the disk does not take, and say so the first time."""
        self.dropped[stream] += len(run)
        if not self._refused:
            where = self.folder or tempfile.gettempdir()
            _log.warning("demoted rows are dropped, and counted: %s cannot be written: %s", where, error)
        self._refused = True

    def _made(self) -> Path:
        """The folder, which is made when it is needed first or has gone, and removed when the store is gone."""
        if self._place is None or not self._place.path.exists():
            self._place = Folder(self.folder)
        return self._place.path

    def _forget(self, words: np.ndarray, plan: Plan) -> None:
        """Drop the runs that have expired and, while the disk is full, the oldest."""
        for stream, runs in enumerate(self.runs):
            runs[:] = [run for run in runs if not has_expired(run, stream, words, plan)]
        while sum(self.sizes) > self.cap_bytes:
            self._drop_oldest(on_disk=True)

    def prune(self, words: np.ndarray, plan: Plan) -> None:
        """Forget every row that has expired: a longer window, which is about to be set, brings none of them back."""
        for stream, runs in enumerate(self.runs):
            for k, run in enumerate(runs):
                fresh = np.flatnonzero(~expired(run, stream, words, plan))
                if len(fresh) < len(run):
                    runs[k] = self._as_it_lay(stream, run, run.taken(fresh))
            runs[:] = [run for run in runs if len(run)]

    def _as_it_lay(self, stream: int, run: Run, part: Run) -> Run:
        """A part of a run where that lay: on disk, if it takes it, or in memory."""
        if not run.disk_bytes or not len(part):
            return part
        try:
            return part.written(self._made(), self.links[stream])
        except OSError as error:
            self._refuse(stream, part, error)
            return part.taken(np.zeros(0, np.int64))

    def _drop_oldest(self, on_disk: bool) -> None:
        """Drop the oldest run, or the oldest of those on disk, and count its rows."""
        runs = [(run.last_seq, s, k, run) for s, mine in enumerate(self.runs) for k, run in enumerate(mine)]
        _, stream, k, _run = min(found for found in runs if found[3].disk_bytes or not on_disk)
        self.dropped[stream] += len(self.runs[stream].pop(k))

    # -- and back ------------------------------------------------------------------------------------------------------

    def called(self, calls: np.ndarray | None, words: np.ndarray, plan: Plan, seen: list[np.ndarray]) -> np.ndarray:
        """The rows under some keys, or all, that have not come back yet and whose window has not passed, [row, word];
        `seen` has the sequence numbers of those that have."""
        found = []
        for stream in range(len(self.runs)):
            for run in (*self.runs[stream], *self.pending[stream]):
                where = self._under(run, stream, calls, plan)
                if len(where):
                    found += self._back(run, stream, where, words, plan, seen)
        width = at.D_CODES + plan.links + plan.numbers.shape[1]
        rows = np.concatenate([np.zeros((0, width), np.int64), *found])
        return rows[np.argsort(rows[:, at.D_SEQ], kind="stable")]

    def _under(self, run: Run, stream: int, calls: np.ndarray | None, plan: Plan) -> np.ndarray:
        """Positions of the rows of a run that are called."""
        mine = None if calls is None else calls[calls[:, 0] == stream]
        if mine is None or (mine[:, 1] < 0).any():
            return np.arange(len(run))
        positions, found = plan.positions(), []
        for d in np.unique(mine[:, 1]).tolist():
            found.append(run.under(int(positions[stream, d]), np.unique(mine[mine[:, 1] == d, 2])))
        return np.unique(np.concatenate(found)) if found else np.zeros(0, np.int64)

    def _back(
        self, run: Run, stream: int, where: np.ndarray, words: np.ndarray, plan: Plan, seen: list[np.ndarray]
    ) -> list[np.ndarray]:
        """Rows of a run as they come back, with a place for their payload."""
        for numbers in seen:
            where = where[~np.isin(run.columns[at.D_SEQ][where], numbers)]
        part = Run([c[where] for c in run.columns], None)
        fresh = ~expired(part, stream, words, plan)
        where = where[fresh]
        if len(where) == 0:
            return []
        seen.append(run.columns[at.D_SEQ][where])
        while len(seen) > 1 and len(seen[-2]) < 2 * len(seen[-1]):
            seen[-2:] = [np.concatenate(seen[-2:])]
        self.found[stream] += len(where)
        rows = np.stack([c[where] for c in run.columns], axis=1)
        if run.table is not None:
            assert self.house is not None
            first = self.house(stream, run.table.take(pa.array(where)))
            rows[:, at.D_ROW] = np.arange(first, first + len(where))
        return [rows]

    # -- what they cost ------------------------------------------------------------------------------------------------

    def _due(self, words: np.ndarray) -> int:
        return self.young_bytes + 4 * int(words[at.Head.filter_used])

    def refill(self, words: np.ndarray, plan: Plan) -> None:
        """Fill the filter anew."""
        filter_of(words)[:] = 0
        words[at.Head.filter_used] = 0
        for stream, runs in enumerate(zip(self.runs, self.pending, strict=True)):
            for link in range(self.links[stream]):
                for run in (*runs[0], *runs[1]):
                    put_all(words, stream, int(plan.classes[stream, link]), np.ascontiguousarray(run.codes(link)))

    def move(self, words: np.ndarray, plan: Plan, filled: np.ndarray) -> None:
        """Be the store of another block, with the words of the filter."""
        filter_of(words)[:] = filled
        words[at.Head.filter_used] = np.count_nonzero(filled.view(np.uint16))
        self.charge(words, plan)

    def charge(self, words: np.ndarray, plan: Plan) -> None:
        """Charge the filter and the young runs to the first pool."""
        due = self._due(words)
        pool = view(words, at.Head.pools_at, plan.pools, at.POOL_SIZE)[0]
        pool[at.Pool.used_bytes] += due - words[at.Head.cold_bytes]
        words[at.Head.cold_bytes] = due

    @property
    def young_bytes(self) -> int:
        """Bytes of rows that are not in files, with their orders by code, which are made when they are asked for."""
        young = [(run, links) for runs, links in zip(self.runs, self.links, strict=True) for run in runs]
        return sum(run.nbytes + 8 * links * len(run) for run, links in young if not run.disk_bytes)

    @property
    def entries(self) -> int:
        """Keys of all rows, which the filter has to know."""
        both = zip(self.runs, self.pending, self.links, strict=True)
        return sum(len(run) * links for runs, pending, links in both for run in (*runs, *pending))

    @property
    def sizes(self) -> list[int]:
        """Bytes of files, by stream."""
        return [sum(run.disk_bytes for run in runs) for runs in self.runs]

    @property
    def rows(self) -> np.ndarray:
        """Rows that are held, by stream, those included that have expired and are not yet dropped."""
        return np.array([sum(map(len, runs)) for runs in self.runs], np.int64)


def filter_of(words: np.ndarray) -> np.ndarray:
    """The words of a block's filter."""
    return view(words, at.Head.filter_at, 1, int(words[at.Head.filter_words]))[0]


def expired(run: Run, stream: int, words: np.ndarray, plan: Plan) -> np.ndarray:
    """Which rows of a run no row can match that is still to come: as kernels/retain.py has it for residents."""
    return _passed(run.columns[at.D_TIME], run.columns[at.D_RANK], stream, words, plan)


def has_expired(run: Run, stream: int, words: np.ndarray, plan: Plan) -> bool:
    """Whether all rows of a run have."""
    return bool(_passed(np.array([run.last_time]), np.array([run.last_rank]), stream, words, plan)[0])


def _passed(time: np.ndarray, rank: np.ndarray, stream: int, words: np.ndarray, plan: Plan) -> np.ndarray:
    line, mark = view(words, at.Head.streams_at, plan.streams, at.STREAM_SIZE)[stream], words[at.Head.watermark]
    if line[at.Stream.last_rows] > 0:
        return rank < line[at.Stream.rank] - line[at.Stream.last_rows]
    gone = (mark.astype(np.uint64) - time.astype(np.uint64)) > line[at.Stream.reach].astype(np.uint64)
    return (time < mark) & (gone | (time < line[at.Stream.since]))
