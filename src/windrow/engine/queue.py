"""Queue: what stands ahead of an engine that is slower than its streams (the papers' slow CPU).

    arrive -> waiting (at most `capacity` rows) -> served -> engine: probe, retain, emit
                 |
                 +-> shed in the queue: never probed, never seen by the engine

Time is simulated: it is the streams' event time, in which rows arrive, and the engine takes `service` rows per `per` of
it. Rows are served in order of arrival; the form says whom an overflowing queue sheds. Accounting, per stream:

    arrived = waiting + shed_in_queue + the engine's arrived
            = waiting + shed_in_queue + late + ignored + resident_rows + expired + released + shed

Served rows are handed to the engine in rounds of `refresh` rows, cut between instants; decisions in the queue see
memory as the last round left it. So they depend neither on where between instants input is cut into pushes nor on
snapshots.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from windrow.engine import emit
from windrow.engine.bind import Binding
from windrow.engine.engine import Engine
from windrow.engine.metrics import Metrics
from windrow.engine.prepare import Packed, Rows
from windrow.engine.queued_rows import Held, opened
from windrow.engine.snapshots import counts, read_strictly
from windrow.errors import SnapshotError, SpecError
from windrow.kernels import layout as at
from windrow.kernels import queue as kernel
from windrow.kernels.rows import pack
from windrow.record import number, one_of, whole
from windrow.spec import Duration, Equal, Query
from windrow.spec.durations import DurationLike, parse_duration
from windrow.state.coding import duration_in_units
from windrow.state.columns import empty_table
from windrow.state.snapshot import form as snapshots

Form = Literal["fifo", "tail", "rand", "modular", "integrated"]
FORMS: dict[str, int] = {
    "fifo": kernel.OLDEST_FIRST,
    "tail": kernel.NEWEST_FIRST,
    "rand": kernel.AT_RANDOM,
    "modular": kernel.MODULAR,
    "integrated": kernel.INTEGRATED,
}
BLIND_ROUND = 1 << 16  # rows of a round where decisions do not look at memory
LEAST_ROUND = 256


@dataclass(frozen=True)
class QueueMetrics:
    """Counters of a queue, by stream where they are mappings; `engine` are those of what was served.

    `engine.recall` compares with the exact join of the rows that the engine was given, not of all that arrived.
    """

    arrived: dict[str, int]
    waiting: dict[str, int]
    shed_in_queue: dict[str, int]
    engine: Metrics
    peak_waiting: int = 0
    cuts: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {**asdict(self), "engine": self.engine.to_dict()}


class Queue:
    """An engine behind a bounded queue.

    Parameters:
        engine: who is served; all rows must come through the queue.
        service: rows that the engine takes per `per` of event time; None for only what `serve` asks for.
        capacity: rows that may wait.
        form: whom an overflowing queue sheds. Blind to values: "fifo" the oldest, "tail" the newest, "rand" any.
            "modular": whose keys have the fewest residents on the other side: a histogram is all it knows of memory.
            "integrated": queue and memory decide together. Waiting rows count as partners, too; among equals the
            engine's statistics decide; and these see every row as it arrives, so that memory knows who is waiting.
        per: the unit of time of `service`.
        threshold: the queue sheds nothing before an instant ends with more rows waiting than this, and is then cut
            by an eighth; what lies between it and the capacity is for the rows of one instant. None for the capacity.
        refresh: rows of a round; None for the capacity.

    >>> import windrow as wr
    >>> sides = [wr.Stream("left", "ts", 10), wr.Stream("right", "ts", 10)]
    >>> queue = Queue(wr.Engine(wr.Query(streams=sides, on="k")), service=1, capacity=2, form="tail")
    >>> rows = pa.table({"k": [1, 1, 1], "ts": [0, 1, 2]})
    >>> found = pa.concat_tables([queue.push({"left": rows, "right": rows}), queue.flush()])
    >>> found.num_rows, queue.metrics.shed_in_queue
    (3, {'left': 0, 'right': 2})
    """

    def __init__(
        self,
        engine: Engine,
        *,
        service: float | None = None,
        capacity: int,
        form: Form = "modular",
        per: DurationLike = 1,
        threshold: int | None = None,
        refresh: int | None = None,
    ) -> None:
        _check_query(engine)
        self.engine = engine
        self.service = None if service is None else _rate(service)
        self.capacity = whole(capacity, "capacity", least=1, most=1 << 40)
        self.form = one_of(form, tuple(FORMS), "form")
        self.per = parse_duration(per, "per")
        if self.per.amount == 0:
            raise SpecError("per must be longer than nothing: rows are served per so much time")
        self.threshold = self.capacity if threshold is None else whole(threshold, "threshold", 1, self.capacity)
        self._blind = FORMS[self.form] < kernel.MODULAR
        if not self._blind and not any(isinstance(predicate, Equal) for predicate in engine.query.predicates):
            raise SpecError(f"form {self.form!r} compares keys, and the query has no equality: use 'fifo' or 'rand'")
        if self.service is not None:
            _check_unit(engine.query, self.per)
        usual = BLIND_ROUND if self._blind else max(self.capacity, LEAST_ROUND)
        self.refresh = usual if refresh is None else whole(refresh, "refresh", least=1)
        names = engine.query.names
        self._arrived = dict.fromkeys(names, 0)
        self._shed = np.zeros(len(names), np.int64)
        self._q = np.zeros(kernel.Q_SIZE, np.int64)
        self._f = np.zeros(kernel.F_SIZE, np.float64)
        self._q[kernel.NOW] = self._q[kernel.LAST] = at.LOW
        self._line = np.zeros(0, np.int64)
        self._held: Held | None = None

    # -- rows in, matches out --------------------------------------------------------------------------------------

    def push(self, batches: Mapping[str, Any]) -> pa.Table | None:
        """Let rows arrive, in order of event time; the matches of rounds that are over (None when only counting)."""
        rows = self.engine.judged(self.engine.coded(batches)[0])
        binding = self.engine.bound()[0]
        held = self._begun(binding)
        if self.form == "integrated":  # it learns of rows before memory has them: none may come before it begins
            self.engine.bound()[1].begin_policy()
        packed = Packed(binding, rows, [table.num_rows for table in held.tables])
        found = self._pass_by(binding, rows)
        self._take(held, rows, packed)
        waiting = self._waiting(binding, held)
        while (status := self._run(waiting)) != at.DONE:
            if status == kernel.ROUND:
                found.append(self._hand(held))
            else:
                self.engine.bound()[1].make_room(status)
        if self._blind:  # nothing depends on when memory learns of it
            found.append(self._hand(held, whole_instants=True))
        self._tidy(held)
        return self._together(found)

    def _run(self, waiting: kernel.Waiting) -> int:
        """Let time pass until the engine is asked for something; what for."""
        shard = self.engine.bound()[1]
        return int(kernel.run_queue(shard.hooks, shard.words, waiting))

    def serve(self, rows: int) -> pa.Table | None:
        """Let the engine take so many waiting rows now, beside what the simulated clock gives it; their matches."""
        whole(rows, "rows")
        return self._serve(float(rows))

    def flush(self) -> pa.Table | None:
        """Let the engine take all waiting rows: the streams have ended; their matches."""
        return self._serve(float("inf"))

    def _serve(self, rows: float) -> pa.Table | None:
        if self._held is None:
            return None
        binding, shard = self.engine.bound()
        kernel.serve_some(shard.words, self._waiting(binding, self._held), rows)
        found = [self._hand(self._held)]
        self._tidy(self._held)
        return self._together(found)

    def _begun(self, binding: Binding) -> Held:
        """What is held; the first push begins it."""
        if self._held is None:
            words = np.zeros(0, np.int64)
            self._held = Held(words, words.copy(), [empty_table(binding.schemas[n]) for n in binding.query.names])
        if self.service is not None:
            unit = duration_in_units(self.per.amount, self.per.unit, binding.domain, "per")
            self._f[kernel.SERVICE] = self.service / float(unit)
        return self._held

    def _pass_by(self, binding: Binding, rows: list[Rows]) -> list[pa.Table | None]:
        """Rows that are late or have no time do not wait: the engine only counts them."""
        lost = {
            name: r.table.filter(pa.array(~r.counted))
            for name, r in zip(binding.query.names, rows, strict=True)
            if not r.counted.all()
        }
        for name, table in lost.items():
            self._arrived[name] += table.num_rows
        return [self.engine.push(lost)] if lost else []

    def _take(self, held: Held, rows: list[Rows], packed: Packed) -> None:
        """Add the records of arriving rows behind those that are held."""
        new = np.zeros(len(packed.order) * packed.words, np.int64)
        pack(new, packed.order, packed.tick, packed.head, packed.gain, packed.codes, packed.numbers)
        tick = new[at.R_TICK :: packed.words]
        if len(tick):
            if self._q[kernel.NOW] == at.LOW:
                self._q[kernel.NOW] = tick[0]  # the clock starts with the first row
            np.maximum.accumulate(np.maximum(tick, self._q[kernel.NOW]), out=tick)
        first = sum(self._arrived.values())
        new[at.R_SLOT :: packed.words] = first + np.arange(len(tick))
        names = self.engine.query.names
        for name, count in zip(names, np.bincount(packed.stream, minlength=len(names)).tolist(), strict=True):
            self._arrived[name] += count
        self._q[[kernel.NEXT, kernel.LEARNED]] = len(held.state)
        held.records = np.concatenate([held.records, new])
        held.state = np.concatenate([held.state, np.full(len(tick), kernel.COMING, np.int64)])
        both = zip(held.tables, rows, strict=True)
        held.tables = [pa.concat_tables([mine, r.table]).combine_chunks() for mine, r in both]

    def _waiting(self, binding: Binding, held: Held) -> kernel.Waiting:
        """What the kernels work on: limits, key numbers, and how many rows wait under each."""
        plan = binding.plan
        names = (kernel.CAPACITY, kernel.THRESHOLD, kernel.REFRESH, kernel.FORM, kernel.Q_SEED)
        self._q[list(names)] = self.capacity, self.threshold, self.refresh, FORMS[self.form], plan.seed
        lines = held.records.reshape(-1, plan.record_words())
        stream = lines[:, at.R_STREAM]
        ids = np.full((len(lines), plan.links), at.NONE, np.int64)
        keys = 0
        if self.form == "integrated":
            for d in range(plan.directories):
                mine = np.argwhere(plan.classes == d)
                picked = [(np.flatnonzero(stream == s), link) for s, link in mine]
                codes = np.concatenate([lines[where, at.R_CODES + link] for where, link in picked])
                unique, inverse = np.unique(codes, return_inverse=True)
                ends = np.cumsum([len(where) for where, _ in picked])[:-1]
                for (where, link), part in zip(picked, np.split(inverse, ends), strict=True):
                    ids[where, link] = keys + part
                keys += len(unique)
        counts = np.zeros((keys, plan.streams), np.int64)
        waits = (held.state == kernel.WAITING) & (lines[:, at.R_LIVE] != 0)
        for link in range(plan.links):
            some = waits & (ids[:, link] >= 0)
            np.add.at(counts, (ids[some, link], stream[some]), 1)
        now = np.flatnonzero(held.state == kernel.WAITING)
        # twice as long as the queue, so that it seldom has to be moved; but no row is put into it twice
        self._line = np.zeros(min(2 * (self.capacity + 1), len(held.state) + 1), np.int64)
        self._line[: len(now)] = now
        self._q[[kernel.FRONT, kernel.BACK]] = 0, len(now)
        return kernel.Waiting(held.records, held.state, ids, counts, self._line, self._q, self._f, self._shed)

    def _hand(self, held: Held, whole_instants: bool = False) -> pa.Table | None:
        """Give the engine what was served; of an instant of which a row still waits nothing, if so told."""
        binding, shard = self.engine.bound()
        words = binding.plan.record_words()
        # rows are served in their order: those since the last round lie before the first that waits
        waits = self._q[kernel.FRONT] < self._q[kernel.BACK]
        end = int(self._line[self._q[kernel.FRONT]] if waits else self._q[kernel.NEXT])
        every = held.records.reshape(-1, words)
        last = end
        if waits and whole_instants:
            last = held.handed + int(np.searchsorted(every[held.handed : end, at.R_TICK], every[end, at.R_TICK]))
        state, lines = held.state[held.handed : last], every[held.handed : last]
        lines = lines[state == kernel.SERVED]
        batch = {}
        for s, name in enumerate(binding.query.names):
            mine = lines[lines[:, at.R_STREAM] == s, at.R_ROW]
            batch[name] = held.tables[s].take(pa.array(mine))
        state[state == kernel.SERVED] = kernel.SHED_HERE  # gone from here
        held.handed, self._q[kernel.UNHANDED] = last, np.count_nonzero(held.state[last:end] == kernel.SERVED)
        shard.words[at.Head.learned_ahead] = self.form == "integrated"
        return self.engine.push(batch)

    def _tidy(self, held: Held) -> None:
        """Keep only what still waits or is to be handed over."""
        binding, _ = self.engine.bound()
        words = binding.plan.record_words()
        here = held.state != kernel.SHED_HERE
        lines = held.records.reshape(-1, words)[here]
        for s in range(len(held.tables)):
            mine = np.flatnonzero(lines[:, at.R_STREAM] == s)
            held.tables[s] = held.tables[s].take(pa.array(lines[mine, at.R_ROW])).combine_chunks()
            lines[mine, at.R_ROW] = np.arange(len(mine))
        held.records, held.state, held.handed = lines.reshape(-1), held.state[here], 0
        self._q[kernel.NEXT] = len(held.state)

    def _together(self, found: list[pa.Table | None]) -> pa.Table | None:
        if self.engine.count_only:
            return None
        return pa.concat_tables(
            [table for table in [empty_table(emit.schema(self.engine.bound()[0])), *found] if table is not None]
        )

    # -- what it says of itself ------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Rows that wait now; those served but not yet handed over included."""
        return 0 if self._held is None else len(self._held.state)

    @property
    def metrics(self) -> QueueMetrics:
        """The counters now."""
        names = self.engine.query.names
        here = {n: 0 if self._held is None else self._held.tables[s].num_rows for s, n in enumerate(names)}
        shed = dict(zip(names, self._shed.tolist(), strict=True))
        peak, cuts = int(self._q[kernel.PEAK]), int(self._q[kernel.CUTS])
        return QueueMetrics(dict(self._arrived), here, shed, self.engine.metrics, peak, cuts)

    # -- snapshots -------------------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """The whole state as bytes, the engine's included."""
        header: dict[str, Any] = {
            "queue": [
                _written(self.service),
                self.capacity,
                self.form,
                self.per.to_value(),
                self.threshold,
                self.refresh,
            ],
            "arrived": self._arrived,
            "shed": self._shed.tolist(),
            "numbers": self._q[list(_NUMBERS)].tolist(),
            "credit": float(self._f[kernel.CREDIT]),
            "held": self._held is not None,
        }
        parts: list[Any] = [self.engine.snapshot()]
        if self._held is not None:
            parts += [snapshots.table_bytes(table) for table in self._held.saved(self._words)]
        return snapshots.write(header, parts)

    @classmethod
    def restore(cls, data: bytes) -> "Queue":
        """The queue of a snapshot, with its engine."""
        snap = snapshots.read(data)
        if "queue" not in snap.header:
            raise SnapshotError("the snapshot is of an engine without a queue: use Engine.restore")
        with read_strictly():
            engine = Engine.restore(snap.parts[0].to_pybytes())
            service, capacity, form, per, threshold, refresh = snap.header["queue"]
            queue = cls(
                engine, service=service, capacity=capacity, form=form, per=per, threshold=threshold, refresh=refresh
            )
            queue._fill(snap)
        return queue

    def _fill(self, snap: snapshots.Snapshot) -> None:
        """Take over what a snapshot holds beside the engine."""
        header, names = snap.header, self.engine.query.names
        numbers = (header["held"], header["credit"], *header["numbers"])
        if [type(n) for n in numbers] != [bool, float, *[int] * len(_NUMBERS)]:
            raise ValueError("its queue has numbers that are none")
        if header["held"]:
            binding = self.engine.bound()[0]
            self._held = opened(binding, [snapshots.table_of(part) for part in snap.parts[1:]])
            self._begun(binding)
        self._arrived = dict(zip(names, counts([header["arrived"][n] for n in names]).tolist(), strict=True))
        self._shed[:] = counts(header["shed"])
        self._q[list(_NUMBERS)] = header["numbers"]
        self._f[kernel.CREDIT] = header["credit"]
        if self._held is not None:
            self._q[kernel.NEXT] = len(self._held.state)
            self._q[kernel.UNHANDED] = np.count_nonzero(self._held.state == kernel.SERVED)
        whole = header.keys() == _FIELDS and header["arrived"].keys() == set(names)
        if not whole or header["held"] != (len(snap.parts) > 1) or not self._adds_up():
            raise ValueError("its queue does not add up")

    def _adds_up(self) -> bool:
        """Whether every row is somewhere, once, and clocks and numbers are those of the rows that are held."""
        now, last, peak, cuts = self._q[list(_NUMBERS)].tolist()
        fine = last <= now and 0 <= peak <= self.capacity and cuts >= 0
        fine &= 0.0 <= self._f[kernel.CREDIT] < 1.0  # what is left of it when nobody waits is lost
        found = self.metrics
        for name in self.engine.query.names:
            here = found.waiting[name] + found.shed_in_queue[name]
            fine &= found.arrived[name] == here + found.engine.streams[name].arrived
        if self._held is not None:
            waiting = np.count_nonzero(self._held.state == kernel.WAITING)
            fine &= waiting <= min(self.threshold, peak)
            fine &= self._held.in_order(self._words, now, sum(self._arrived.values()))
        return bool(fine)

    @property
    def _words(self) -> int:
        """Words of a row's record."""
        return self.engine.bound()[0].plan.record_words()


_NUMBERS = (kernel.NOW, kernel.LAST, kernel.PEAK, kernel.CUTS)
_FIELDS = {"queue", "arrived", "shed", "numbers", "credit", "held"}


def _written(service: float | None) -> float | str | None:
    """A rate as JSON has it."""
    return "inf" if service == float("inf") else service


def _rate(service: Any) -> float:
    if service in ("inf", float("inf")):
        return float("inf")
    return float(number(service, "service"))


def _check_unit(query: Query, per: Duration) -> None:
    """Refuse a unit of time that the query's windows show to be no length of its times; other times show it later."""
    for stream in query.streams:
        size = stream.window.size
        if isinstance(size, Duration) and size.amount and size.unit != per.unit:
            raise SpecError(
                f"per is {per}, and the window of {stream.name!r} {size}: per needs a unit of the same kind"
            )


def _check_query(engine: Any) -> None:
    """Refuse what would mean something else behind a queue that sheds."""
    if not isinstance(engine, Engine):
        raise SpecError(f"Queue takes an Engine, got {type(engine).__name__}")
    query = engine.query
    query.refuse_names("a queue")
    if (query.shards or 1) > 1:
        raise SpecError("a queue stands in front of one engine that is too slow: leave shards out")
    if not engine.own_clock:
        raise SpecError("a queue has a clock of its own: give it an engine without own_clock=False")
    query.refuse_deletions("a queue that sheds one would leave its row in memory: push to the engine itself")
    for stream in query.streams:
        if stream.time is None or stream.window.kind == "rows":
            raise SpecError(
                f"stream {stream.name!r} counts rows, and a queue that sheds would change their numbers: "
                "give it a time column and a window in time"
            )
    if query.order == "arrival":
        raise SpecError("a queue takes rows in order of event time: use order='time'")
