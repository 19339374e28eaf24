"""How kernels hold a shard's block: as bare memory, with the numbers that stay fixed during a call beside it.

Kernels are forced inline into their driver, so that the fixed numbers live in registers and, in the driver of
pairs, are constants. The block is a bare pointer: counting references to an array on every inlined call costs more than
the join itself (measured: 3 against 10 million arrivals per second), and an array's index might be negative, which is
looked at before every access. The driver's caller keeps the block alive.
"""

from typing import Any, NamedTuple

from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from windrow.kernels.jit import inline
from windrow.kernels.layout import Head
from windrow.kernels.records import reference

_head = reference(Head)


class Memory(NamedTuple):
    """A block as integers `w` and floats `x`, its single words by name, and what is fixed while a driver runs."""

    w: Any
    x: Any
    head: Head
    streams: int
    links: int
    dirs: int
    vals: int
    preds: int
    indexes: int
    hists: int
    several: int  # whether there are several joins
    pools: int
    by_row: int
    valued: int
    drifting: int
    statistic: int
    keep_idle: int
    rank_off: int
    vals_off: int
    streams_at: int
    pools_at: int
    dirs_at: int
    classes_at: int
    slots_at: int
    slot_words: int
    tables_at: int
    table_size: int
    keys_at: int
    key_words: int
    key_cap: int
    nodes_at: int
    node_words: int
    leaves: int


def _words(item: Any) -> Any:
    """An intrinsic that gives the words of an array, or those that a pointer shows already, as a pointer to items."""

    @intrinsic
    def read(_context: Any, words: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            held = args[0]
            if isinstance(words, types.Array):
                held = make_array(words)(context, builder, held).data
            return builder.bitcast(held, context.get_value_type(signature.return_type))

        return types.CPointer(item)(words), code

    return read


@intrinsic
def _fetch(_context: Any, words: Any, at: Any) -> Any:
    """Ask for the cache line of a word ahead of time."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        place = builder.bitcast(builder.gep(args[0], [args[1]]), byte)
        builder.call(ask, [place, number(1), number(3), number(1)])
        return context.get_dummy_value()

    return types.none(words, types.int64), code


if config.DISABLE_JIT:  # type: ignore[attr-defined]  # kernels as plain Python, for a debugger

    def bare_ints(array: Any) -> Any:
        """The words of an array."""
        return array.reshape(-1)

    def bare_floats(array: Any) -> Any:
        """The words of an array as floats."""
        return array.view("f8")

    def fetch(m: Memory, at: int) -> None:
        """Nothing: there is no cache to fill."""

else:
    bare_ints = _words(types.int64)
    bare_floats = _words(types.float64)

    @inline
    def fetch(m: Memory, at: int) -> None:
        """Ask for the cache line of a word ahead of time, so that misses of many rows overlap."""
        _fetch(m.w, at)  # type: ignore[call-arg]  # mypy counts the context, too


@inline
def shaped(
    block: Any,
    streams: int,
    links: int,
    dirs: int,
    vals: int,
    preds: int,
    indexes: int,
    hists: int,
    several: int,
    drifting: int,
) -> Memory:
    """A block with its shape given, as constants where the driver knows them."""
    w = bare_ints(block)
    head = _head(w, 0)
    return Memory(
        w,
        bare_floats(block),
        head,
        streams,
        links,
        dirs,
        vals,
        preds,
        indexes,
        hists,
        several,
        head.pools,
        head.by_row,
        head.has_value,
        drifting,
        head.statistic,
        head.keep_idle,
        head.rank_off,
        head.vals_off,
        head.streams_at,
        head.pools_at,
        head.dirs_at,
        head.classes_at,
        head.slots_at,
        head.slot_words,
        head.tables_at,
        head.table_size,
        head.keys_at,
        head.key_words,
        head.key_cap,
        head.nodes_at,
        head.node_words,
        head.leaves,
    )


@inline
def memory_of(block: Any) -> Memory:
    """A block with its shape as it stands in its head."""
    head = _head(bare_ints(block), 0)
    streams = head.streams
    several = int(head.access_at - head.order_at > streams * (streams - 1))
    links, dirs, drifting = head.links, head.dirs, head.drifting
    return shaped(block, streams, links, dirs, head.vals, head.preds, head.indexes, head.hists, several, drifting)


@inline
def memory_of_pair(block: Any, drifting: int) -> Memory:
    """A block of two streams and one directory, whose priorities move with the clock or do not."""
    return shaped(block, 2, 1, 1, 0, 1, 0, 0, 0, drifting)


@inline
def memory_of_numbered_pair(block: Any) -> Memory:
    """The same where rows have numbers, which constraints read."""
    head = _head(bare_ints(block), 0)
    return shaped(block, 2, 1, 1, head.vals, 1, 0, 0, 0, head.drifting)
