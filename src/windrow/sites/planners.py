"""Planners: for each stream, in which order and by which programs its rows meet the others.

    greedy       the paper's algorithm 10: the cheapest next one-way join, again and again. The place of joined rows is
                 known, and all predicates with the streams that are done are applied
    exhaustive   all orders and programs of a sequence, without those that already cost more than the best one
    exact        the same optimum by dynamic programming over (streams done, site): for many streams

The sequences of a plan are independent but for one thing: a stream that several programs read at a site is shipped
there once. `shared` finds the optimum for each sequence again with what the others ship for free, while that helps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from windrow.errors import SpecError
from windrow.sites.costs import EdgeCost, Model, Rows, Ship
from windrow.sites.equalities import Connections
from windrow.sites.programs import EVERY, PROGRAMS
from windrow.spec import Query

Sequence = tuple[tuple[str, str], ...]
HERE = "@here"
FEW = 5  # sites, of which all are tried as the one that everything is shipped to
ROUNDS = 3  # of choosing again what others ship for free
NEAR = 1.01  # costs that are one to a model of packed sizes
Free = frozenset[tuple[str, str]]
"""Streams that are shipped to a site anyway: (channel, receiver)."""


@dataclass(frozen=True)
class Choice:
    """The sequence of one stream, with what each of its edges ships."""

    sequence: Sequence
    edges: tuple[EdgeCost, ...]
    cost: float


class Search:
    """What the planners ask about one query: which streams come next, by which programs, for what."""

    def __init__(self, query: Query, model: Model, result_at: str | None, programs: tuple[str, ...] = ()) -> None:
        self.query, self.model, self.result_at = query, model, result_at
        self.programs = programs or tuple(EVERY if model.relative else PROGRAMS)
        self.connections = Connections(query)
        self._known: dict[tuple[Rows, str, str], EdgeCost] = {}
        self._moves: dict[Rows, list[tuple[str, str, EdgeCost, Rows]]] = {}
        self._next: dict[frozenset[str], list[str]] = {}
        self._prices: dict[int, float] = {}

    def start(self, head: str) -> Rows:
        """The rows of a stream before they have met anybody."""
        return Rows((head,), self.model.sites[head], self.model.figures.rates[head])

    def moves(self, rows: Rows) -> list[tuple[str, str, EdgeCost, Rows]]:
        """Each next stream and program: what it costs, and the rows afterwards. At one site all programs are alike."""
        if rows not in self._moves:
            self._moves[rows] = list(self._found_moves(rows))
        return self._moves[rows]

    def _found_moves(self, rows: Rows) -> Iterator[tuple[str, str, EdgeCost, Rows]]:
        for stream in self.next(frozenset(rows.done)):
            there = self.model.sites[stream]
            after = {site: self.model.after(rows, stream, site) for site in {rows.site, there}}
            for name in self.programs if there != rows.site else ("SP-D",):
                at = rows.site if EVERY[name].at_source else there
                yield stream, name, self.edge(rows, stream, name), after[at]

    def next(self, done: frozenset[str]) -> list[str]:
        """The streams that can be joined with those that are done."""
        if done not in self._next:
            told = {s: self.connections.of(s, done) for s in self.query.names if s not in done}
            for stream, (joined, equal) in told.items():
                if joined and not equal:
                    raise SpecError(f"planners know equalities only, and {stream!r} has none with {', '.join(done)}")
            self._next[done] = [stream for stream, (joined, _) in told.items() if joined]
        return self._next[done]

    def edge(self, rows: Rows, stream: str, program: str) -> EdgeCost:
        """What an edge costs; asked again and again."""
        key = (rows, stream, program)
        if key not in self._known:
            if not self.model.relative:
                self._known[key] = self.model.edge(rows, stream, program)
            else:
                here = (replace(rows, site=HERE), stream, program)
                if here not in self._known:
                    self._known[here] = self.model.edge(*here)
                self._known[key] = _moved(self._known[here], rows.site)
        return self._known[key]

    def price(self, cost: EdgeCost, free: Free = frozenset()) -> float:
        """A cost, without what is shipped anyway. Costs of edges are kept by `edge`, so they are known by identity."""
        if free and any((ship.shared, ship.receiver) in free for ship in cost.ships):
            return self.model.price(
                replace(cost, ships=tuple(s for s in cost.ships if (s.shared, s.receiver) not in free))
            )
        if id(cost) not in self._prices:
            self._prices[id(cost)] = self.model.price(cost)
        return self._prices[id(cost)]

    def end(self, rows: Rows) -> float:
        """What it costs to bring matches to where they are wanted."""
        return self.model.price(self.model.delivery(rows, self.result_at))

    def choice(self, head: str, sequence: Sequence, free: Free = frozenset()) -> Choice:
        """A sequence with its costs."""
        rows, edges = self.start(head), []
        total = 0.0
        for stream, name in sequence:
            edge = self.edge(rows, stream, name)
            edges.append(edge)
            total += self.price(edge, free)
            at = rows.site if EVERY[name].at_source else self.model.sites[stream]
            rows = self.model.after(rows, stream, at)
        return Choice(sequence, (*edges, self.model.delivery(rows, self.result_at)), total + self.end(rows))


def _moved(cost: EdgeCost, site: str) -> EdgeCost:
    """The cost of an edge whose rows are at a site."""
    ships = []
    for s in cost.ships:
        sender, receiver = (site if end == HERE else end for end in (s.sender, s.receiver))
        if sender != receiver:
            ships.append(Ship(sender, receiver, s.what, s.rows, s.bytes, s.messages, s.shared))
    return EdgeCost(tuple(ships), cost.processing, cost.fixed)


def greedy(search: Search, head: str, free: Free = frozenset()) -> Choice:
    """Algorithm 10 for one stream: of all next streams and programs the cheapest, until none is left."""
    rows, sequence = search.start(head), []
    while len(rows.done) < len(search.model.sites):
        stream, name, _, rows = min(search.moves(rows), key=lambda move: search.price(move[2], free))
        sequence.append((stream, name))
    return search.choice(head, tuple(sequence), free)


def exhaustive(search: Search, head: str, free: Free = frozenset()) -> Choice:
    """The cheapest sequence of one stream among all; a beginning that costs as much as the best is left alone."""
    best: list[float] = [float("inf")]
    found: list[Sequence] = [()]

    def extend(rows: Rows, sequence: Sequence, cost: float) -> None:
        if len(rows.done) == len(search.model.sites):
            cost += search.end(rows)
            if cost < best[0]:
                best[0], found[0] = cost, sequence
            return
        priced = [(search.price(edge, free), stream, name, after) for stream, name, edge, after in search.moves(rows)]
        for price, stream, name, after in sorted(priced, key=lambda move: move[0]):
            if cost + price >= best[0]:
                return
            extend(after, (*sequence, (stream, name)), cost + price)

    extend(search.start(head), (), 0.0)
    return search.choice(head, found[0], free)


def exact(search: Search, head: str, free: Free = frozenset()) -> Choice:
    """The same optimum: what comes later depends on which streams are done and where the rows are, not on the order.

    The columns that rows have, and how often they meet, are the same for a set of streams in any order: `Model` takes
    them in the order of the query.
    """
    start = search.start(head)
    level: dict[tuple[frozenset[str], str], tuple[float, Sequence, Rows]] = {
        (frozenset(start.done), start.site): (0.0, (), start)
    }
    for _ in range(1, len(search.model.sites)):
        following: dict[tuple[frozenset[str], str], tuple[float, Sequence, Rows]] = {}
        for cost, sequence, rows in level.values():
            for stream, name, edge, after in search.moves(rows):
                key = (frozenset(after.done), after.site)
                price = cost + search.price(edge, free)
                if key not in following or price < following[key][0]:
                    following[key] = (price, (*sequence, (stream, name)), after)
        level = following
    _, sequence, _ = min(level.values(), key=lambda entry: entry[0] + search.end(entry[2]))
    return search.choice(head, sequence, free)


PLANNERS = {"greedy": greedy, "exhaustive": exhaustive, "exact": exact}
AGAIN = {"greedy": greedy, "exhaustive": exact, "exact": exact}  # who chooses again what others ship for free


def plan_all(search: Search, planner: str) -> dict[str, Choice]:
    """A sequence for each stream."""
    return {head: PLANNERS[planner](search, head) for head in search.query.names}


def shared(search: Search, choices: Mapping[str, Choice], planner: str) -> dict[str, Choice]:
    """The sequences of a planner chosen again, each with what the others ship for free, as long as the sum falls.

    One sequence alone may not find it worth while to ship a stream that many could use: so this begins from the best of
    the sequences as they are, and of those that would be chosen if everything were shipped to one site. The latter send
    the fewest messages, and stay where the model could not tell what is won by another plan.
    """
    again = AGAIN[planner]
    starts = []
    for site in _busiest(search):
        everything = frozenset((channel, site) for name in search.model.sites for channel in (name, f"{name}#"))
        starts.append({head: again(search, head, everything) for head in choices})
    whole = min(starts, key=lambda start: total(search, start))
    starts.append(dict(choices))
    if again is not greedy:  # what is found step by step may share more
        starts.append(shared(search, plan_all(search, "greedy"), "greedy"))
    best = min(starts, key=lambda start: total(search, start))
    cost = total(search, best)
    for _ in range(ROUNDS):
        before = cost
        for head in best:
            free = frozenset(
                (s.shared, s.receiver) for other, c in best.items() if other != head for s in ships(c) if s.shared
            )
            tried = {**best, head: again(search, head, free)}
            if (less := total(search, tried)) < cost - 1e-12:
                best, cost = tried, less
        if cost >= before:
            break
    return whole if search.model.counted and total(search, whole) <= NEAR * cost else best


def _busiest(search: Search) -> list[str]:
    """The sites with the most rows: all of few, so that others bring the least there."""
    rates: dict[str, float] = {}
    for name, site in search.model.sites.items():
        rates[site] = rates.get(site, 0.0) + search.model.figures.rates[name]
    ordered = sorted(rates, key=lambda site: -rates[site])
    return ordered if len(ordered) <= FEW else ordered[:2]


def ships(choice: Choice) -> Iterator[Ship]:
    """All that a sequence ships."""
    for edge in choice.edges:
        yield from edge.ships


def total(search: Search, choices: Mapping[str, Choice]) -> float:
    """What a plan costs, with everything that is shared counted once."""
    seen: set[tuple[str, str]] = set()
    cost = 0.0
    for choice in choices.values():
        for edge in choice.edges:
            fresh = tuple(s for s in edge.ships if not s.shared or (s.shared, s.receiver) not in seen)
            seen |= {(s.shared, s.receiver) for s in edge.ships if s.shared}
            cost += search.model.price(replace(edge, ships=fresh))
    return cost
