"""The engine: one shard of a join. Batches in, matches out. (Of a query with several shards: see sharded.py.)

    push     coded (check, code) -> take: judge (who is late), then stage by stage (taking.py): order, probe and store,
             emit. The stages by themselves, for windrow's own parts: stages.py

Everything that can be wrong with a batch is found while it is coded, before the shard changes: a push that raises
has not happened. Between pushes the engine is its shard's block of words, the residents' payloads and a few
counters; a snapshot is what is alive of these (snapshots.py), and nothing else. Parked, it leaves all of it in a folder
(parking.py).
"""

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.engine import demoting, parking, persistence, snapshots, taking
from windrow.engine.bind import Binding, bind, check_is_known
from windrow.engine.demoting import demoted_of
from windrow.engine.departures import Departures
from windrow.engine.intake import as_table, check_batches, plain_schemas
from windrow.engine.metrics import Metrics, StreamMetrics, metrics_of
from windrow.engine.missed_matches import NOTHING, broken, missed
from windrow.engine.oracle import check_oracle, oracle_for, oracle_table
from windrow.engine.prepare import Rows, rows_of, tables
from windrow.errors import MemoryFull, SpecError, WindrowError
from windrow.kernels import layout as at
from windrow.quality.tracker import Recall, Tracker
from windrow.spec import Memory, Query, Window
from windrow.state.coding import ticks_of
from windrow.state.demoted import filter_of
from windrow.state.payload import SPARE_BYTES, Payload
from windrow.state.shard import Full, Shard
from windrow.state.snapshot.reading import layout_digest

SPARE_SHARE = 32  # one part in so many of a budget in bytes: dead payload that is not worth a copy


class Engine:
    """Joins the streams of a query, batch by batch, inside its memory; a query with shards in as many threads.

    Parameters:
        query: what to join.
        schemas: each stream's Arrow schema; taken from the first push if it brings every stream.
        count_only: count matches instead of producing them; residents have no payload.
        recall: estimate recall beside the join (only where memory is capped).
        departures: keep the rows that are lost until `departed` asks for them; residents then hold all columns.
        oracle: whole tables by stream, for a policy with the statistic Oracle.
        own_clock: let the times of rows move the watermark. Without it only `push(watermark=)` does, so that rows are
            late when its giver says so; where memory is full, the lateness that streams declare moves it too.
    """

    def __new__(cls, query: Any = None, *_: Any, **__: Any) -> "Engine":
        """An engine, or one that has an engine for each shard of the query."""
        if cls is Engine and isinstance(query, Query) and (query.shards or 1) > 1:
            from windrow.engine.sharded import ShardedEngine

            return super().__new__(ShardedEngine)
        return super().__new__(cls)

    def __init__(
        self,
        query: Query,
        schemas: Mapping[str, pa.Schema] | None = None,
        *,
        count_only: bool = False,
        recall: bool = True,
        departures: bool = False,
        oracle: Mapping[str, Any] | None = None,
        own_clock: bool = True,
    ) -> None:
        if not isinstance(query, Query):
            raise SpecError(f"Engine takes a Query, got {type(query).__name__}: build one with windrow.Query(...)")
        check_is_known(query.memory)
        if not own_clock and (query.order == "arrival" or any(stream.time is None for stream in query.streams)):
            raise SpecError("own_clock=False needs time columns and order='time': arrivals are a clock of their own")
        self.query = query
        self.count_only = count_only
        self._tracks = recall
        self.own_clock = own_clock
        self._keeps_departures = departures and not count_only
        self._interrupted, self._parked = False, False
        self._told: set[str] = set()  # constraints that were said to be broken
        self._ground: parking.Ground | None = None
        self._oracle = {name: as_table(table, name) for name, table in (oracle or {}).items()}
        self._binding: Binding | None = None
        self._shard: Shard | None = None
        self._departures: Departures | None = None
        check_oracle(query, self._oracle)
        if schemas is not None:
            self._bind(dict(schemas))

    def _bind(self, schemas: dict[str, pa.Schema]) -> None:
        plain = plain_schemas(schemas, self.query.names)
        binding = replace(bind(self.query, plain, self.own_clock), keeps_payload=not self.count_only)
        self._start(binding.with_whole_rows() if self._keeps_departures else binding)

    def _watch_departures(self, binding: Binding, shard: Shard) -> None:
        """Let a shard keep the rows that it sheds, if they are asked for."""
        if self._keeps_departures:
            self._departures = Departures([binding.payload_schema(s) for s in range(binding.plan.streams)])
            shard.keep_gone()
            self._gone: list[np.ndarray] = []

    def _start(self, binding: Binding) -> None:
        """An empty shard for a bound query; nothing is taken over before all of it is made."""
        shard = Shard(binding.plan, emit=not self.count_only)
        shard.keep_demoted(demoted_of(binding))
        if self._oracle and binding.plan.learning.kind == at.STAT_ORACLE:
            oracle_table(binding, self._oracle, shard)
            binding = binding.with_oracle(int(shard.words[at.Head.oracle_rows]))
            shard.change(binding.plan)
        self._payloads = [Payload(s, binding.payload_schema(s)) for s in range(binding.plan.streams)]
        self._watch_departures(binding, shard)
        self._arrived = np.zeros((len(self.query.streams), 3), np.int64)  # arrived, late, ignored
        self._deletions = np.zeros((len(self.query.streams), 2), np.int64)  # that found a resident, and that found none
        self._false = np.zeros(len(binding.results), np.int64)  # candidates of colliding codes, by join
        self._tracker: Tracker | None = None
        if self._tracks and self.query.memory is not None and self.query.on_full == "shed":
            self._tracker = Tracker(binding.plan, binding.recall_bytes)
        self._binding, self._shard = binding, shard

    # -- pushing ---------------------------------------------------------------------------------------------------

    def push(self, batches: Mapping[str, Any], watermark: dt.datetime | int | None = None) -> Any:
        """Take rows of any of the streams; the matches that they complete (None when only counting).

        They come as a table or, where the query's joins have names, as a dictionary with a table for each.

        A watermark says that no row before it will come, in this push or later: rows that do are late.
        """
        return self.take(*self.coded(batches, watermark))

    def take(self, rows: list[Rows], mark: int = at.LOW) -> Any:
        """Take rows that are coded, and a watermark: the matches, as `push` gives them."""
        return self._take(self.judged(rows, mark), mark)

    def _take(self, rows: list[Rows], mark: int, probing: bool = True) -> Any:
        """Take rows of which it is known who is late; if they are not probing, they are stored and find no matches."""
        return taking.take(self, rows, mark, probing)

    def routed(self, rows: list[Rows]) -> "list[tuple[Engine, list[Rows]]]":
        """The engines that hold the residents, each with the rows that it would take of these."""
        self.bound()
        return [(self, rows)]

    def judged(self, rows: list[Rows], mark: int = at.LOW) -> list[Rows]:
        """Coded rows, of which those behind the watermark, or the one that comes with them, are late."""
        mark = max(mark, int(self.bound()[1].words[at.Head.watermark]))
        return [r.judged(mark) for r in rows]

    def coded(self, batches: Mapping[str, Any], watermark: dt.datetime | int | None = None) -> tuple[list[Rows], int]:
        """The rows of a push, coded, and its watermark. A first push binds the query; if it is refused, it does not."""
        self._check(batches)
        first = self._binding is None
        try:
            if first:
                self._bind({name: as_table(data, name).schema for name, data in batches.items() if data is not None})
            binding = self.bound()[0]
            mark = at.LOW if watermark is None else ticks_of(watermark, binding.domain, "push: watermark")
            return self._rows(binding, tables(binding, batches)), mark
        except Exception:
            if first:
                self._binding = self._shard = None
            raise

    def _raise_watermark(self, mark: int) -> None:
        self.bound()[1].raise_watermark(mark)
        if self._tracker is not None:
            self._tracker.raise_watermark(mark)

    def _finish(self) -> None:
        """The input has ended: every resident expires, here and in the estimate of recall, and payload goes."""
        shard = self.bound()[1]
        shard.finish()
        shard.settle_demoted(None)
        if self._tracker is not None:
            self._tracker.finish()
            self._tracker.settle(shard.matched - int(self._false.sum()), 0)
        for payload in self._payloads:
            payload.chunks = []
        self._shrink(changed=True)

    def _rows(self, binding: Binding, inputs: list[pa.Table]) -> list[Rows]:
        """The rows of each stream, coded."""
        return [rows_of(binding, s, t, int(self._arrived[s, 0])) for s, t in enumerate(inputs)]

    @property
    def watermark(self) -> int | None:
        """The least time that a row may still bring, in units of the time columns; None before any is known."""
        mark = at.LOW if self._binding is None else int(self.bound()[1].words[at.Head.watermark])
        return None if mark == at.LOW else mark

    def departed(self) -> dict[str, pa.Table]:
        """The rows of each stream that were lost since the last call, with why and when (see departures.py)."""
        if not self._keeps_departures:
            raise WindrowError("departed: make the engine with departures=True to keep the rows that are lost")
        if self._departures is None:
            return {}
        return dict(zip(self.query.names, self._departures.take(), strict=True))

    def _check(self, batches: Mapping[str, Any]) -> None:
        """Refuse what is not a push, and any push after one that was interrupted."""
        if self._parked:
            raise WindrowError("the engine was parked, and its memory is no longer its own: attach the folder")
        if self._interrupted:
            raise WindrowError(
                "a push was interrupted half-way, so the state is not whole: restore the last snapshot (or another "
                "thread is in a push now: push from one at a time)"
            )
        check_batches(batches, self.query.names)

    def bound(self) -> tuple[Binding, Shard]:
        """The bound query and its shard; there are none before the first push, unless schemas were given."""
        if self._parked:
            self._check({})
        if self._binding is None or self._shard is None:
            raise WindrowError("the engine has no state yet: push rows of every stream, or give it schemas")
        return self._binding, self._shard

    # -- changing while it runs ------------------------------------------------------------------------------------

    @property
    def memory(self) -> Memory | None:
        """The budget; setting it takes effect at once.

        What statistics have learned stays with every change between budgets, shared or split; without one nothing
        is learned, and what was known is forgotten.
        """
        return self.query.memory

    @memory.setter
    def memory(self, memory: Memory | int | str | None) -> None:
        query = self.query.with_(memory=memory)
        check_is_known(query.memory)
        self._change(query)

    def window(self, stream: str, window: Any) -> None:
        """Give a stream another window: rows outside a smaller one expire at once, a larger one keeps what is there."""
        old = self.query.stream(stream).window
        new = Window.of(window)
        if "rows" in (old.kind, new.kind) and old.kind != new.kind:
            raise SpecError(
                f"stream {stream!r}: a window in rows cannot become one of another kind while the engine runs"
            )
        self._change(self.query.with_window(stream, new))

    def _change(self, query: Query) -> None:
        """Take over other windows, another budget or another policy: expire and shed at once."""
        self._check({})
        if self._binding is not None:
            binding = self._binding.rebound(query)
            try:
                shard = self._changed(binding)
            except Full:
                raise MemoryFull(
                    f"the rows that are held do not fit into memory of {query.memory}, and on_full='fail' sheds none: "
                    "nothing was changed; give more memory, or smaller windows first"
                ) from None
            self._binding, self._shard = binding, shard
            gone = shard.gone()
            shard.settle_demoted(self._tables())
            if self._departures is not None:
                self._departures.add_shed(gone, self._tables())
            if self._tracker is not None:
                self._tracker.lose(gone)
            for s, rows in enumerate(shard.stream_counter(at.Stream.rows).tolist()):
                self._tidy(s, rows)
            self._shrink(changed=True)
        self.query = query

    def _tables(self) -> list[pa.Table]:
        """The payload of each stream."""
        return [payload.table() for payload in self._payloads]

    def _tidy(self, stream: int, residents: int) -> None:
        """Copy a stream's payload together where too much of it is dead."""
        binding, shard = self.bound()
        spare = min(SPARE_BYTES, binding.plan.room_bytes // SPARE_SHARE)
        live = snapshots.payload_bytes(binding, shard, stream)
        self._payloads[stream].tidy(shard.words, residents, live, spare)

    def _shrink(self, changed: bool = False) -> None:
        """Move into blocks as large as the residents need: after a push where payload needs their room; after a change
        of windows or memory also where they are several times too large."""
        binding, shard = self.bound()
        beside = sum(payload.nbytes for payload in self._payloads)
        if (changed or shard.words.nbytes + beside > binding.plan.room_bytes) and shard.spacious(beside):
            self._shard = snapshots.shrunk(shard, self._payloads if binding.keeps_payload else [])
            self._shard.notes_as(shard)
            self._shard.keep_demoted(shard.demoted, filter_of(shard.words))
        exact = None if self._tracker is None else self._tracker.shard
        if changed and self._tracker is not None and exact is not None and exact.spacious():
            self._tracker.shard = snapshots.shrunk(exact, [])

    def _changed(self, binding: Binding) -> Shard:
        """The shard under a changed binding: the same one, or its residents moved where the policy's columns differ."""
        old, shard = self.bound()
        if shard.demoted is not None:
            shard.demoted.prune(shard.words, shard.plan)
        if binding.plan.same_shape(old.plan):
            self._tracker = self._tracker_for(binding)
            shard.change(binding.plan)
            return shard
        oracle = oracle_for(old.plan, binding, self._oracle)
        self._tracker = self._tracker_for(binding)
        moved, slots = shard.moved_to(binding.plan, oracle)
        self._follow(slots)
        return moved

    def _follow(self, slots: np.ndarray) -> None:
        """Let payload belong to the new slot of each old one."""
        for payload in self._payloads:
            payload.chunks = [(table, slots[owners]) for table, owners in payload.chunks]

    def _tracker_for(self, binding: Binding) -> Tracker | None:
        """The estimate of recall under a changed binding: it goes on, or begins to be told where nothing could be shed.

        Without a cap there is none. If rows had been shed before that, recall is not known any more.
        """
        shard = self.bound()[1]
        shard.note(0.0)
        if binding.query.memory is None or binding.query.on_full != "shed" or not self._tracks:
            return None
        tracker = self._tracker
        if tracker is None:
            if shard.stream_counter(at.SHED).any():
                return None
            matched = shard.matched - int(self._false.sum())
            tracker = Tracker(binding.plan, binding.recall_bytes, matched=matched)
        tracker.change(binding.plan, binding.recall_bytes, shard)
        shard.note(tracker.samples)
        return tracker

    # -- what it says of itself ------------------------------------------------------------------------------------

    @property
    def metrics(self) -> Metrics:
        """The counters now."""
        if self._binding is None:
            none = {join.name: 0 for join in self.query.joins} if self.query.named else {}
            return Metrics(0, 0, 0, {name: StreamMetrics() for name in self.query.names}, joins=none)
        _, shard = self.bound()
        matched = shard.matched - int(self._false.sum())
        recall = self._recall(matched, bool(shard.stream_counter(at.SHED).any()))
        return metrics_of(self.query, shard, self._arrived, self._deletions, self._false, recall)

    @property
    def allocated_bytes(self) -> int:
        """Bytes that are really allocated now: blocks with their reserve, trials, payload, and what estimates recall.

        Not a metric, because it is not state: an engine that has just been restored has less in reserve.
        """
        if self._shard is None:
            return 0
        exact = self._tracker.allocated_bytes if self._tracker is not None else 0
        return self._shard.allocated_bytes + exact + sum(payload.nbytes for payload in self._payloads)

    def _recall(self, matched: int, lossy: bool) -> Recall | None:
        """What is known of recall: all, as long as nothing was shed, and nothing was released that was needed."""
        gone = missed(self.bound()[1], self._deletions)
        if gone is None or (lossy and gone is not NOTHING):
            return None
        if not lossy:
            return gone.recall(matched)
        return self._tracker.recall(matched) if self._tracker is not None else None

    # -- left and gone on with (persistence.py) -------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """The whole state as bytes."""
        return b"".join(persistence.written(self))

    def snapshot_pieces(self, most_bytes: int) -> list[bytes]:
        """The whole state as bytes in pieces of at most so many, for places that hold no more in one value."""
        return persistence.in_pieces(self, most_bytes)

    @classmethod
    def restore(
        cls, data: bytes, query: Query | None = None, *, recall: bool | None = None, own_clock: bool | None = None
    ) -> "Engine":
        """The engine of a snapshot.

        If a query is given, the snapshot must be of that query. Memory, windows, lateness, patience, policy, sample and
        on_full may differ: they take effect at once, and what statistics have learned stays if both learn alike. The
        watermark never goes back, so rows that were late stay late when the lateness grows. With recall=False recall is
        no longer estimated; it cannot be from the middle on. From now on own_clock may be another, too.
        """
        return persistence.restored(Engine, data, query, recall, own_clock)

    @classmethod
    def restore_pieces(cls, pieces: Iterable[bytes], query: Query | None = None, **options: Any) -> "Engine":
        """The engine of a snapshot in pieces, in their order; otherwise as `restore`."""
        return cls.restore(b"".join(pieces), query, **options)

    def park(self, folder: Path | str, key: str = "") -> None:
        """Leave the engine's whole memory in a private folder of this machine, from where `attach` takes it up.

        The engine can do nothing more afterwards. Attached, pushed to and parked in the same folder again, it writes
        what the push has touched. A parked engine is a cache (parking.py): what must survive is a snapshot.
        """
        persistence.park(self, Path(folder).absolute(), key)

    @classmethod
    def attach(
        cls, folder: Path | str, query: Query | None = None, *, key: str = "", recall: bool | None = None,
        own_clock: bool | None = None,
    ) -> "Engine":  # fmt: skip
        """The engine that was parked in a folder, which nobody else can attach until it is parked there again.

        It must have been parked under the same key, by the same windrow, since the machine was started: otherwise
        SnapshotError is raised, and the folder is of no more use. The other arguments are those of `restore`.
        """
        return persistence.attached(Engine, Path(folder).absolute(), key, query, recall, own_clock)

    def _header(self) -> dict[str, Any]:
        """How the engine was made."""
        return {
            "layout": layout_digest(),
            "query": self.query.to_json(),
            "count_only": self.count_only,
            "recall": self._tracks,
            "departures": self._keeps_departures,
            "own_clock": self.own_clock,
            "bound": self._binding is not None,
        }

    def _saved(self) -> tuple[dict[str, Any], list[Any]]:
        """What the header of a snapshot says of the state, and the parts that hold it."""
        state = self._state()
        false = state.false.tolist()
        header = {"arrived": state.arrived.tolist(), "false": false if self.query.named else false[0]}
        if state.deletions.any():
            header["deletions"] = state.deletions.tolist()
        if state.tracker is not None:
            header["tracker"] = state.tracker.state()
        state.shard.settle_demoted(None if self.count_only else self._tables())
        parts = snapshots.parts(state)
        if state.shard.demoted is not None:
            header["demoted"], tables = demoting.saved(state.binding, state.shard)
            parts += tables
        return header, parts

    def _fill(self, header: dict[str, Any], parts: list[pa.Buffer]) -> None:
        """Take over the state of a snapshot."""
        self._hold_state(snapshots.opened(self.query, header, parts))

    def _leave(self, folder: Path, key: str) -> dict[str, Any]:
        """Write what of the memory is not in a folder yet; what the header says of it."""
        if self._ground is None or self._ground.folder != folder:
            self._ground = parking.fresh(folder)
        return parking.left(self._ground, self._state())

    def _take_up(self, folder: Path, header: dict[str, Any], key: str) -> None:
        """Take over the memory of a parked engine."""
        state, self._ground = parking.taken_up(folder, self.query, header)
        self._hold_state(state)

    def _state(self) -> snapshots.State:
        binding, shard = self.bound()
        came = self._arrived, self._deletions
        return snapshots.State(binding, shard, self._payloads, self._tracker, *came, self._false)

    def _hold_state(self, state: snapshots.State) -> None:
        self._binding, self._shard = state.binding, state.shard
        self._payloads, self._tracker = state.payloads, state.tracker
        self._arrived, self._deletions, self._false = state.arrived, state.deletions, state.false
        self._watch_departures(state.binding, state.shard)
        self._told.update(broken(state.shard))
        if self._tracker is not None:
            state.shard.note(self._tracker.samples)

    def _track_no_longer(self) -> None:
        """Estimate recall no longer."""
        self._tracks, self._tracker = False, None
        if self._shard is not None:
            self._shard.note(0.0)

    def _go_by(self, own_clock: bool) -> None:
        """Let the times of rows move the watermark from now on, or not."""
        self.own_clock = own_clock
        if self._binding is not None and self._shard is not None:
            self._binding = replace(self._binding, plan=replace(self._binding.plan, own_clock=own_clock))
            self._shard.go_by(own_clock)
            if self._tracker is not None:
                self._tracker.go_by(own_clock)
