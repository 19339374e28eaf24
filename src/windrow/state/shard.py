"""One shard's memory and the kernels that run on it.

A driver runs until it is done or something has to be done outside: grow the block, prune statistics, hand over matches.
Growth is the owner's, so that kernels never allocate what they keep.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from windrow.kernels import layout as at
from windrow.kernels import maintenance
from windrow.kernels.drive_many import drive_many
from windrow.kernels.drive_pair import drive_pair
from windrow.kernels.hooks import Hooks, hooks
from windrow.kernels.notice import NOTICE
from windrow.kernels.release.demoting import take_down
from windrow.kernels.release.visiting import leave, visit
from windrow.kernels.stages import look_many, look_pair
from windrow.state import block, monitor, room
from windrow.state.auto.samples import Sample
from windrow.state.auto.trials import Trials
from windrow.state.demoted import Demoted, filter_of
from windrow.state.parts import Capacity, view
from windrow.state.plan import LEAST_MARGIN, SAMPLE_MARGIN, SIGNED, Plan
from windrow.state.probe_orders import first_route, route
from windrow.state.renumbering import followed, renumber

REROUTE_EVERY = 1 << 14  # arrivals between two looks at the probe orders
FIRST_OUT = 1 << 14
_LOOKED = [at.Head.emit, at.Head.value, at.Head.need]  # what a look changes on its way, beside the tally
_CAPS = ((at.Pool.cap_rows, at.Pool.used_rows), (at.Pool.cap_bytes, at.Pool.used_bytes))
EVERYTHING = np.zeros(0, np.int64)  # no list of keys


class Full(Exception):
    """Rows do not fit and the plan says fail."""


class Shard:
    """Residents, indexes, statistics and counters of one shard."""

    def __init__(self, plan: Plan, emit: bool = True, words: np.ndarray | None = None) -> None:
        """An empty shard, or one that takes over a block."""
        self.plan = plan
        self.trials = Trials(self) if plan.hooks.TRIES and not plan.releases else None
        self.demoted: Demoted | None = None  # what was released, where it is not lost
        self._gone: list[np.ndarray] = []
        self._moved: np.ndarray | None = None
        self.hold(block.start(plan, first_route(plan), emit, room.first(plan)) if words is None else words)
        if plan.defers and self.words[at.Head.begun]:
            NOTICE.turn_to(plan.rule)
        if words is None:
            maintenance.rebuild(self.hooks, self.words)

    @classmethod
    def with_room(cls, plan: Plan, emit: bool, capacity: Capacity, oracle_rows: int = 0) -> "Shard":
        """An empty shard of a given capacity."""
        shard = cls(plan, emit, block.start(plan, first_route(plan), emit, capacity, oracle_rows))
        maintenance.rebuild(shard.hooks, shard.words)
        return shard

    @property
    def hooks(self) -> Hooks:
        """What kernels do for the policy now: nothing, as long as it is deferred."""
        return self.plan.hooks_when(int(self.words[at.Head.begun]))

    def hold(self, words: np.ndarray) -> None:
        """Take a block as this shard's memory."""
        self.words = words
        self.floats = words.view(np.float64)

    def advance(self, batch: np.ndarray, probing: bool = True) -> Iterator[np.ndarray]:
        """Take a batch of row records; yields matches as arrays [stream, match] of payload rows, in pieces.

        Of several joins a last line names the join of each match; streams that it does not join have NONE. Rows that
        are not probing find no matches, here and wherever something is tried out.
        """
        if self.trials is None:
            yield from self._drive(batch, probing)
            monitor.adapt(self.words, self.plan)
            self.take_down()
            return
        taken = 0
        while taken < len(batch):
            piece = self.trials.piece(batch[taken:])
            yield from self._drive(piece, probing, batch[:taken])
            piece = piece[: int(self.words[at.Head.cursor]) * self.plan.record_words()]
            taken += len(piece)
            self.trials.watch(piece, probing)

    def count(self, batch: np.ndarray, probing: bool = True) -> None:
        """Take a batch of row records for its counts alone."""
        for _ in self._drive(batch, probing):
            pass

    def _drive(self, batch: np.ndarray, probing: bool, earlier: np.ndarray = EVERYTHING) -> Iterator[np.ndarray]:
        """Run the driver until the batch is taken; rows of earlier batches of the same push follow their slots.

        Where a policy begins that tries out how to count, it comes back before: from there on trials may look.
        """
        self._reroute()
        self.words[at.Head.cursor] = 0
        drive = drive_pair if self.plan.is_pair else drive_many
        lines = self.plan.streams + (self.plan.joins is not None)
        out = np.empty((lines, FIRST_OUT if self.words[at.Head.emit] else 0), np.int64)
        while True:
            status, out, found = drive(self.hooks, self.words, batch, out, probing)
            if found:
                yield out[:, :found].copy()
            if status == at.DONE:
                return
            if status == at.FULL:
                raise Full
            if status == at.RECALL:
                yield from self._recall()
                continue
            words, cursor = self.plan.record_words(), int(self.words[at.Head.cursor])
            ticks = batch[at.R_TICK :: words][cursor : cursor + self.plan.together]
            moved = self.make_room(status, int((ticks == ticks[:1]).sum()))
            if status == at.BEGIN and self.trials is not None:
                return
            if moved is not None:
                for slots in (earlier[at.R_SLOT :: words], batch[at.R_SLOT :: words][:cursor]):
                    slots[:] = followed(slots, moved)

    def look(self, batch: np.ndarray, counts: np.ndarray, emit: bool, first: bool = False) -> Iterator[np.ndarray]:
        """Look for matches with a batch of row records, of which none is stored: yields them as `advance` does, if they
        are to be emitted, and fills in how many each row has; if the first is enough, only whether it has any.

        When it has ended, the shard is as it was before, but for room that may have been lacking.
        """
        kept, tally = self.words[_LOOKED].copy(), self._tally().copy()
        self.words[at.Head.emit] = emit
        # hooks of a look know of numbers by which deletions name rows only where constraints have some, too
        pair = self.plan.is_pair and (self.plan.releases or self.plan.rule != SIGNED)
        look = look_pair if pair else look_many
        out = np.empty((self.plan.streams + (self.plan.joins is not None), FIRST_OUT if emit else 0), np.int64)
        row = 0
        try:
            while row < len(counts):
                end, out, found = look(self._looking(first), self.words, batch, out, counts, row)
                if end < 0:
                    self.words[at.Head.need] = 1
                    self.grow(self._larger(at.GROW_SLOTS))
                    continue
                row = end
                if found:
                    yield out[:, :found].copy()
        finally:
            self.words[_LOOKED] = kept
            self._tally()[:] = tally

    def _recall(self) -> Iterator[np.ndarray]:
        """Let demoted rows that the last group has looked for come back for a moment (kernels/release/visiting.py):
        yields the matches that they complete."""
        assert self.demoted is not None
        self.take_down()
        tally, seen, slots = self._tally().copy(), list[np.ndarray](), list[np.ndarray]()
        emit, visiting = bool(self.words[at.Head.emit]), hooks("exact+visiting")
        out = np.empty((self.plan.streams, FIRST_OUT if emit else 0), np.int64)
        try:
            while len(rows := self.demoted.called(self._called(), self.words, self.plan, seen)):
                there, status = np.empty(len(rows), np.int64), at.PAUSE
                while status != at.DONE:
                    status, out, sent, found = visit(visiting, self.words, rows, there, out)
                    if status in (at.GROW_SLOTS, at.GROW_KEYS, at.GROW_BLOCKS):
                        self.grow(self._larger(status))  # for a moment: residents stay where they are
                    elif status != at.DONE:
                        self.make_room(status)
                slots.append(there)
                self.words[at.Head.matched] += found
                self.demoted.matched += found
                if sent:
                    yield out[:, :sent].copy()
        finally:
            leave(visiting, self.words, np.concatenate([EVERYTHING, *slots]))
            self._tally()[:] = tally

    def _called(self) -> np.ndarray | None:
        """The keys under which demoted rows are looked for, [call, word]; None if there are so many that all are."""
        count, most = int(self.words[at.Head.called]), int(self.words[at.Head.called_cap])
        self.words[at.Head.called] = 0
        return view(self.words, at.Head.called_at, most, at.CALLED_SIZE)[:count].copy() if count <= most else None

    def take_down(self) -> None:
        """Hand over the rows that were demoted since the last time."""
        if self.demoted is not None and self.words[at.Head.down_count]:
            self.demoted.add(take_down(self.words))

    def settle_demoted(self, payloads: list[pa.Table] | None) -> None:
        """After rows have been taken, or windows or memory have changed: put away what was demoted, whose payload lies
        in these tables if it has any."""
        if self.demoted is not None:
            self.take_down()
            self.demoted.settle(self.words, self.plan, payloads)

    def keep_demoted(self, demoted: Demoted | None, filled: np.ndarray | None = None) -> None:
        """Let released rows go to a store, or let one that another block has filled be this one's, with the words of
        its filter: which rows are looked for in vain must not depend on where the block lies."""
        self.demoted = None
        if demoted is not None and filled is not None:
            self.grow(replace(self.capacity, filter=len(filled)))
            demoted.move(self.words, self.plan, filled)
        self.demoted = demoted

    def _looking(self, first: bool) -> Hooks:
        """The hooks of a look, for the first match of each row or for all."""
        return hooks(("first" if first else "exact") + ("+looking" if self.plan.releases else ""))

    def collect(self) -> None:
        """Release what constraints allow by now; else it is done every now and then while rows are taken."""
        maintenance.collect(self.hooks, self.words)
        self.take_down()

    @property
    def capacity(self) -> Capacity:
        """What the block can hold now."""
        return block.capacity_of(self.words)

    def make_room(self, status: int, coming: int = 0) -> np.ndarray | None:
        """Do what a driver asked for, before a group of so many rows; where residents move, the new slot of each."""
        if status in (at.GROW_SLOTS, at.GROW_KEYS, at.GROW_BLOCKS):
            wanted, needed = self._larger(status), self._room_in(self.plan, coming)
            needed = replace(needed, blocks=max(wanted.blocks, needed.blocks))  # ordered indexes are not packed
            if room.too_large(self.plan, wanted, needed):
                return self._pack(needed)
            self.grow(wanted)
        elif status == at.GROW_FILTER:
            self.grow(self._larger(status))
        elif status == at.PRUNE:
            maintenance.forget_rarest(self.words)
        elif status == at.BEGIN:
            NOTICE.turn_to(self.plan.rule)
            begun = block.regrown(self.words, self.plan, replace(self.capacity, begun=1))
            maintenance.rebuild(self.plan.hooks, begun)
            maintenance.begin_policy(self.plan.hooks, begun)
            self.hold(begun)  # not before: whoever interrupts compiling leaves a block in which nothing has begun
        elif status == at.DRAIN:
            self._gone.append(maintenance.drain(self.words))
            self.take_down()
        return None

    def _larger(self, status: int) -> Capacity:
        """The next capacity, after a driver has said what lacks."""
        return room.larger(self.plan, self.capacity, status, int(self.words[at.Head.need]))

    def keep_gone(self) -> None:
        """Keep what is known of rows that are shed until `gone` asks for it."""
        self.words[at.Head.keep_gone] = 1

    def note(self, share: float) -> None:
        """Keep the same of a sample of the rows, for the estimate of recall."""
        self.floats[at.Head.noted] = share

    def notes_as(self, other: "Shard") -> None:
        """Keep what another shard keeps of rows that are shed."""
        self.words[[at.Head.keep_gone, at.Head.noted]] = other.words[[at.Head.keep_gone, at.Head.noted]]

    def gone(self) -> np.ndarray:
        """The rows that were shed since the last call, in order of departure, [row, word]."""
        found = np.concatenate([*self._gone, maintenance.drain(self.words)])
        self._gone.clear()
        return found

    def raise_watermark(self, mark: int) -> None:
        """Let no row before a time be waited for any longer: what could only match such rows expires."""
        self._pass_time(mark, ends=False)

    def finish(self) -> None:
        """Let no row be waited for any longer: every resident expires."""
        self._pass_time(at.LATEST, ends=True)

    def _pass_time(self, mark: int, ends: bool) -> None:
        maintenance.raise_watermark(self.hooks, self.words, mark, ends)
        for fork in self.trials.tried() if self.trials is not None else ():
            maintenance.raise_watermark(fork.plan.hooks, fork.words, mark, ends)

    def go_by(self, own_clock: bool) -> None:
        """Let the times of rows move the watermark from now on, or not."""
        self.plan = replace(self.plan, own_clock=own_clock)
        self.words[at.Head.own_clock] = own_clock
        for fork in self.trials.tried() if self.trials is not None else ():
            fork.go_by(own_clock)

    def grow(self, capacity: Capacity, oracle_rows: int | None = None) -> None:
        """Move into a block of another capacity; no part gets smaller, and no policy begins by it."""
        now = self.capacity
        capacity = replace(Capacity(*map(max, vars(now).values(), vars(capacity).values())), begun=now.begun)
        self.hold(block.regrown(self.words, self.plan, capacity, oracle_rows))
        maintenance.rebuild(self.hooks, self.words)
        if self.demoted is not None and capacity.filter > now.filter:
            self.take_down()
            self.demoted.refill(self.words, self.plan)

    def _pack(self, capacity: Capacity) -> np.ndarray:
        """Move into a block of a capacity that holds what there is, less than now in some parts; the new slots."""
        self._gone.append(maintenance.drain(self.words))
        self.take_down()
        maintenance.catch_up(self.hooks, self.words)
        moved = renumber(self.words, self.plan)
        self.hold(block.regrown(self.words, self.plan, capacity))
        maintenance.rebuild(self.hooks, self.words)
        self._moved = moved if self._moved is None else followed(self._moved, moved)
        return moved

    def moved(self) -> np.ndarray | None:
        """The new slot of each old one since the last call, 0 for empty ones; None if all are where they were."""
        moved, self._moved = self._moved, None
        return moved

    def _reroute(self) -> None:
        """Choose the probe orders anew when enough has been seen since."""
        arrivals, n = int(self.words[at.Head.arrivals]), self.plan.streams
        if n > 2 and arrivals - self.words[at.Head.routed] >= REROUTE_EVERY:
            self.words[at.Head.routed] = arrivals
            block.write_route(self.words, self.plan, route(self.plan, self._tally()))

    def _tally(self) -> np.ndarray:
        """[route, stream, 2]: what visits have let through."""
        n = self.plan.streams
        return view(self.words, at.Head.tally_at, self.plan.routes, n * 2).reshape(-1, n, 2)

    def preload(self, stream: int, column: int, bits: np.ndarray, gain: np.ndarray | None) -> None:
        """Let the histogram of a value column see all its numbers, with the gains of their rows."""
        numbers = bits.view(np.float64) if self.plan.numbers[stream, column] else bits.astype(np.float64)
        weights = np.ones(len(numbers))
        if self.plan.value == "product" and gain is not None:
            weights = np.maximum(gain, 0.0)
        k = self.plan.histograms().index((stream, column))
        maintenance.learn_histogram(self.words, k, np.ascontiguousarray(numbers), weights)

    def change(self, plan: Plan) -> None:
        """Take over the windows and caps of another plan of the same shape; expire and shed at once."""
        before = self.words.copy() if plan.fail_when_full else None
        block.write_windows(self.words, plan)
        self.begin_policy()
        if maintenance.reconsider(self.plan.hooks, self.words) == at.FULL:
            assert before is not None
            self.hold(before)
            raise Full
        self.plan = plan
        self._prune()
        if self.trials is not None:
            self.trials.restart()

    def begin_policy(self) -> None:
        """Let a policy that is deferred begin now."""
        if not self.words[at.Head.begun]:
            self.make_room(at.BEGIN)

    def _prune(self) -> None:
        """Forget keys that only statistics keep, until there are as few as the plan allows."""
        idle = view(self.words, at.Head.dirs_at, self.plan.directories, at.DIR_SIZE)[:, at.Directory.idle]
        while (idle > self.plan.idle_limit).any():
            maintenance.forget_rarest(self.words)

    def moved_to(self, plan: Plan, prepare: Callable[["Shard"], None] | None = None) -> tuple["Shard", np.ndarray]:
        """The same residents under a plan with another policy or other pools; and the new slot of each old one.

        What statistics have learned moves too, where both plans learn in the same way; what the new one has to know
        beyond that, `prepare` tells it before the residents come.
        """
        learned = plan.learns_as(self.plan) and bool(self.words[at.Head.begun])
        oracle_rows = int(self.words[at.Head.oracle_rows]) if learned else 0
        capacity = replace(self._room_in(plan), begun=1)
        other = Shard.with_room(plan, bool(self.words[at.Head.emit]), capacity, oracle_rows)
        other.notes_as(self)
        other.keep_demoted(self.demoted, filter_of(self.words))
        block.carry(self.words, self.plan, other.words, plan, learned)
        if prepare is not None:
            prepare(other)
        extra = plan.row_bytes() - self.plan.row_bytes()
        slots = maintenance.move_residents(
            plan.hooks, self.words, other.words, extra, plan.rule == self.plan.rule, learned, 1.0, EVERYTHING
        )
        if plan.defers and not learned:
            maintenance.begin_policy(plan.hooks, other.words)
        if maintenance.reconsider(plan.hooks, other.words) == at.FULL:
            raise Full
        other._prune()
        if other.trials is not None:
            other.trials.restart(self.trials if learned else None)
        return other, slots

    def fork(self, sample: Sample) -> "Shard":
        """The same shard once more, only counting; or only a sample of it, and memory to scale."""
        capacity = self._room_in(self.plan) if sample.is_whole else sample.capacity(self)
        other = Shard.with_room(self.plan, False, capacity)
        other.trials = None
        block.carry(self.words, self.plan, other.words, other.plan, learned=True)
        share, popular = (1.0, EVERYTHING) if sample.is_whole else (sample.share, sample.popular)
        maintenance.move_residents(self.plan.hooks, self.words, other.words, 0, True, True, share, popular)
        if not sample.is_whole:
            other.plan = self._plan_for_sample(other, sample)
            block.write_windows(other.words, other.plan)
        return other

    def _plan_for_sample(self, other: "Shard", sample: Sample) -> Plan:
        """The plan of a fork: caps in proportion to what it holds. With a budget in bytes also few more rows than it
        holds, for it is allotted bytes for so many, and forks keep no payload."""
        mine, theirs = (view(s.words, at.Head.pools_at, s.plan.pools, at.POOL_SIZE) for s in (self, other))
        rows, size = (theirs[:, k] / np.maximum(mine[:, k], 1) for k in (at.Pool.used_rows, at.Pool.used_bytes))
        most = mine[:, at.Pool.cap_rows] * rows
        if self.plan.fork_bytes < at.HIGH:
            held = theirs[:, at.Pool.used_rows]
            most = np.minimum(most, held + held // SAMPLE_MARGIN + LEAST_MARGIN)
        idle = sample.idle_limit(self.plan)
        return self.plan.for_sample(np.ceil(most), np.ceil(mine[:, at.Pool.cap_bytes] * size), idle)

    def _room_in(self, plan: Plan, more: int = 0) -> Capacity:
        """Room for all residents under a plan, admitted anew: in order of time, which may leave blocks half full; and
        for so many more."""
        keys = view(self.words, at.Head.dirs_at, self.plan.directories, at.DIR_SIZE)[:, at.Directory.live]
        rows = self.stream_counter(at.Stream.rows)
        found = room.enough(plan, int(rows.sum()) + more, int(keys.max(initial=0)) + more, 2 * int(rows.max()) + more)
        return replace(found, filter=self.capacity.filter, begun=self.capacity.begun)

    def twin(self) -> "Shard":
        """The same shard once more."""
        other = Shard(self.plan, emit=False, words=self.words.copy())
        other.trials = None
        return other

    def stream_counter(self, what: int) -> np.ndarray:
        """A per-stream counter."""
        return view(self.words, at.Head.streams_at, self.plan.streams, at.STREAM_SIZE)[:, what].copy()

    def pass_by(self, rows: np.ndarray) -> None:
        """Count rows of each stream that have probed and are not stored: they have expired at once."""
        view(self.words, at.Head.streams_at, self.plan.streams, at.STREAM_SIZE)[:, at.EXPIRED] += rows

    def spacious(self, beside: int = 0) -> bool:
        """Whether the block could hold several times what it holds, or takes too much with so many bytes beside it."""
        lean, mine = block.block_bytes(self.plan, self._room_in(self.plan)), self.words.nbytes
        over = mine + beside > self.plan.room_bytes + self.plan.room_bytes // room.RESERVE
        return mine > 4 * lean or (over and mine - lean > self.plan.room_bytes // (2 * room.RESERVE))

    @property
    def allocated_bytes(self) -> int:
        """Bytes of the block and of all forks, and of demoted rows that are not in files."""
        forks = self.trials.tried() if self.trials is not None else ()
        young = 0 if self.demoted is None else self.demoted.young_bytes
        return int(self.words.nbytes) + young + sum(int(fork.words.nbytes) for fork in forks)

    def has_room(self, rows: int, dearest: int) -> bool:
        """Whether so many rows, none of which costs more than told, pass no cap, whatever their streams and keys."""
        pools = view(self.words, at.Head.pools_at, self.plan.pools, at.POOL_SIZE)
        free, size = (int((pools[:, cap] - pools[:, used]).min()) for cap, used in _CAPS)
        return rows <= free and rows * (dearest + self.plan.links * self.plan.key_bytes()) <= size

    def fitting(self, stream: np.ndarray, live: np.ndarray, cost: np.ndarray) -> int:
        """How many rows of given streams and costs, from the first on, pass no cap even if each of them stays.

        Rows that are not live are never stored.
        """
        pools = view(self.words, at.Head.pools_at, self.plan.pools, at.POOL_SIZE)
        rows, size = (pools[:, cap] - pools[:, used] for cap, used in _CAPS)
        keys, fits = self.plan.links * self.plan.key_bytes(), len(stream)
        pool = self.plan.windows[:, at.Stream.pool - at.Stream.reach][stream]
        for p in range(len(pools)):
            mine = np.flatnonzero((pool == p) & (live != 0))
            over = np.flatnonzero(np.cumsum(cost[mine] + keys) > size[p])
            first = min(int(rows[p]), int(over[0]) if len(over) else len(mine))
            fits = min(fits, int(mine[first])) if first < len(mine) else fits
        return fits

    def fits(self, plan: Plan) -> bool:
        """Whether the residents surely pass no cap of another plan of the same join."""
        lines = view(self.words, at.Head.streams_at, self.plan.streams, at.STREAM_SIZE)
        pool, more = plan.windows[:, at.Stream.pool - at.Stream.reach], plan.row_bytes() - self.plan.row_bytes()
        keys = int(view(self.words, at.Head.dirs_at, plan.directories, at.DIR_SIZE)[:, at.Directory.live].sum())
        for p in range(plan.pools):
            rows, size = lines[pool == p][:, [at.Stream.rows, at.Stream.bytes]].sum(axis=0).tolist()
            size += rows * more + min(rows * plan.links, keys) * plan.key_bytes()
            if rows > plan.cap_rows[p] or size > plan.cap_bytes[p]:
                return False
        return True

    @property
    def charged_bytes(self) -> int:
        """Bytes charged for the residents."""
        return int(view(self.words, at.Head.pools_at, self.plan.pools, at.POOL_SIZE)[:, at.Pool.used_bytes].sum())

    @property
    def matched(self) -> int:
        """Matches found so far."""
        return int(self.words[at.Head.matched])

    @property
    def matched_by_join(self) -> np.ndarray:
        """Matches of each join so far."""
        if self.plan.joins is None:
            return np.array([self.matched])
        n = self.plan.streams
        own = self._tally()[np.arange(self.plan.routes), np.arange(self.plan.routes) % n, 1]
        return own.reshape(-1, n).sum(axis=1)
