"""Where the records of a block lie: references to slots, keys, lines of streams and so on, by their numbers."""

from windrow.kernels.jit import inline
from windrow.kernels.layout import (
    COVER_SIZE,
    CREDIT_SIZE,
    DIR_SIZE,
    EDGE_SIZE,
    EVIDENCE_SIZE,
    HIST_SIZE,
    INDEX_SIZE,
    LINK0,
    LINK_WORDS,
    ORDERED_SIZE,
    PER_STREAM,
    POOL_SIZE,
    PRED_SIZE,
    PROMISE_SIZE,
    STEPS,
    STILL_WORDS,
    STREAM_MASK,
    STREAM_SIZE,
    WATCHED_SIZE,
    Chain,
    Cover,
    Credit,
    Directory,
    Edge,
    Evidence,
    Histogram,
    Index,
    Key,
    Link,
    Node,
    Ordered,
    Pool,
    Predicate,
    Promise,
    Slot,
    Stream,
    Watched,
)
from windrow.kernels.memory import Memory
from windrow.kernels.records import reference

_slot, _link, _stream, _pool, _directory = (reference(r) for r in (Slot, Link, Stream, Pool, Directory))
_key, _chain, _node, _credit, _index = (reference(r) for r in (Key, Chain, Node, Credit, Index))
_predicate, _histogram = (reference(r) for r in (Predicate, Histogram))
_promise, _watched = reference(Promise), reference(Watched)
_edge, _evidence, _cover, _ordered = (reference(r) for r in (Edge, Evidence, Cover, Ordered))


@inline
def slot_at(m: Memory, slot: int) -> Slot:
    """A slot."""
    return _slot(m.w, m.slots_at + slot * m.slot_words)


@inline
def link_at(m: Memory, slot: int, link: int) -> Link:
    """A slot's link."""
    return _link(m.w, m.slots_at + slot * m.slot_words + LINK0 + link * LINK_WORDS)


@inline
def stream_at(m: Memory, stream: int) -> Stream:
    """A stream's line."""
    return _stream(m.w, m.streams_at + stream * STREAM_SIZE)


@inline
def stream_of(m: Memory, slot: int) -> int:
    """The stream of a slot."""
    return slot_at(m, slot).cost & STREAM_MASK


@inline
def pool_at(m: Memory, pool: int) -> Pool:
    """A pool's line."""
    return _pool(m.w, m.pools_at + pool * POOL_SIZE)


@inline
def held_at(m: Memory, pool: int, d: int) -> int:
    """Where it stands how many keys of a directory the residents of a pool have."""
    return m.head.held_at + pool * m.dirs + d


@inline
def directory_at(m: Memory, d: int) -> Directory:
    """A directory's line."""
    return _directory(m.w, m.dirs_at + d * DIR_SIZE)


@inline
def directory_of(m: Memory, stream: int, link: int) -> int:
    """The directory of a stream's link, or NONE."""
    return m.w[m.classes_at + stream * m.links + link]


@inline
def key_at(m: Memory, d: int, key: int) -> Key:
    """A key's record."""
    return _key(m.w, m.keys_at + (d * m.key_cap + key) * m.key_words)


@inline
def key_of(m: Memory, slot: int, link: int) -> int:
    """The key number that a slot's link names."""
    return link_at(m, slot, link).key


@inline
def chain(key: Key, stream: int) -> Chain:
    """A key's chain of a stream."""
    return _chain(key.w, key.at + 1 + PER_STREAM * stream)


@inline
def node_at(m: Memory, pool: int, node: int) -> Node:
    """A node of a pool's tournament."""
    return _node(m.w, m.nodes_at + (pool * 2 * m.leaves + node) * m.node_words)


@inline
def still_node_at(m: Memory, pool: int, node: int) -> Node:
    """The same where leaves do not drift: the size of nodes is a constant."""
    return _node(m.w, m.nodes_at + (pool * 2 * m.leaves + node) * STILL_WORDS)


@inline
def leaf_at(m: Memory, pool: int, leaf: int) -> Node:
    """A leaf of a pool's tournament."""
    return node_at(m, pool, m.leaves + leaf)


@inline
def credit_at(m: Memory, pool: int) -> Credit:
    """A pool's line of credits."""
    return _credit(m.w, m.head.credit_at + pool * CREDIT_SIZE)


@inline
def index_at(m: Memory, ix: int) -> Index:
    """An ordered index's line."""
    return _index(m.w, m.head.indexes_at + ix * INDEX_SIZE)


@inline
def predicate_at(m: Memory, p: int) -> Predicate:
    """A predicate's line."""
    return _predicate(m.w, m.head.preds_at + p * PRED_SIZE)


@inline
def histogram_at(m: Memory, hist: int) -> Histogram:
    """A histogram's line."""
    return _histogram(m.w, m.head.hists_at + hist * HIST_SIZE)


@inline
def numbers_at(m: Memory, slot: int) -> int:
    """Where the numbers of a slot begin, words of which each value column has one."""
    return m.slots_at + slot * m.slot_words + m.vals_off


@inline
def kept_at(m: Memory, key: Key, which: int, stream: int) -> int:
    """Where something stands that not every policy keeps of keys (layout.KEPT_OF_KEYS), by its place among them."""
    return key.at + 1 + (PER_STREAM + which) * m.streams + stream


@inline
def came_at(m: Memory, d: int, key: int, stream: int) -> int:
    """Where it stands when rows of a key came on a stream (release/evidence.py)."""
    return kept_at(m, key_at(m, d, key), m.head.came_place, stream)


@inline
def came_time_at(m: Memory, d: int, key: int, stream: int) -> int:
    """Where the least time of one of them stands."""
    return kept_at(m, key_at(m, d, key), m.head.came_place + 1, stream)


@inline
def before_at(m: Memory, slot: int, which: int) -> int:
    """Where a slot says how many rows of a child stream had come before."""
    return m.slots_at + slot * m.slot_words + m.head.befores_off + which


@inline
def edge_at(m: Memory, edge: int) -> Edge:
    """A stream's edge in the join graph."""
    return _edge(m.w, m.head.edges_at + edge * EDGE_SIZE)


@inline
def evidence_at(m: Memory, evidence: int) -> Evidence:
    """A line of evidence."""
    return _evidence(m.w, m.head.evidence_at + evidence * EVIDENCE_SIZE)


@inline
def cover_at(m: Memory, cover: int) -> Cover:
    """A cover of a stream."""
    return _cover(m.w, m.head.covers_at + cover * COVER_SIZE)


@inline
def ordered_at(m: Memory, k: int) -> Ordered:
    """The line of an ordered column."""
    return _ordered(m.w, m.head.ordered_at + k * ORDERED_SIZE)


@inline
def step_at(m: Memory, k: int, step: int) -> int:
    """Where a step of an ordered column stands."""
    return m.head.steps_at + (k * STEPS + step) * 2


@inline
def promise_at(m: Memory, promise: int) -> Promise:
    """The line of a promise."""
    return _promise(m.w, m.head.promises_at + promise * PROMISE_SIZE)


@inline
def watched_at(m: Memory, stream: int, link: int) -> Watched:
    """What the key of a stream's link tells about."""
    return _watched(m.w, m.head.watched_at + (stream * m.links + link) * WATCHED_SIZE)
