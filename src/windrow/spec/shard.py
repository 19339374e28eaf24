"""One shard of a query: its part of the memory, and random choices of its own. The same embedded and on Spark."""

from windrow.errors import MemoryTooSmall
from windrow.spec.constraints import LEAST_DISK
from windrow.spec.memory import Memory
from windrow.spec.query import Query


def shard_query(query: Query, shard: int, shards: int) -> Query:
    """The query of one of so many shards. A share of memory stays a share: of what this shard's exact join needs.

    >>> from windrow.spec import Stream
    >>> query = Query(streams=[Stream("a", "t", 5), Stream("b", "t", 5)], on="k", memory=100, shards=3)
    >>> shard_query(query, 2, 3).memory.rows
    33
    """
    memory = None if query.memory is None else _part(query.memory, shards)
    violated, demote = query.on_violation, query.demotes
    if demote is not None and shards > 1:
        violated = demote.with_(disk=max(demote.disk // shards, LEAST_DISK))
    seed = (query.seed * 1_000_003 + shard) % 2**62
    return query.with_(seed=seed, memory=memory, shards=None, on_violation=violated)


def _part(memory: Memory, shards: int) -> Memory:
    """One shard's part of a budget."""
    if memory.share is not None:
        return memory
    limit = memory.rows if memory.rows is not None else memory.bytes
    assert limit is not None
    if limit < shards:
        raise MemoryTooSmall(f"memory of {memory} is too little for {shards} shards: give more, or fewer shards")
    return memory.with_(**{"rows" if memory.rows is not None else "bytes": limit // shards})
