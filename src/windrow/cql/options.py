"""What is said beside a query text: options of its joins, columns of times and signs. Refused before anything runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from windrow.cql.blocks import options_for
from windrow.cql.explaining import unbound
from windrow.cql.joining import is_plain, join_query, plain_window
from windrow.cql.syntax import Select, Source
from windrow.errors import CqlError, InputError, SpecError, alternatives
from windrow.maintained.joins import ROW, SIGN, SINCE
from windrow.spec import Equal, Query, Stream
from windrow.spec.constraints import parse_constraints

SAID = ("streams", "on", "select", "order", "value", "probe_order")
"""Parts of a query that its text says."""

KNOWN = tuple(name for name in Query.__dataclass_fields__ if name not in SAID)


def checked_options(
    selects: Sequence[Select], text: str, options: Mapping[str, Any], signed: Collection[str] = ()
) -> dict[str, Any]:
    """The options, if a join of the text could have them; `signed` are the streams that bring deletions.

    What depends on the columns of streams is looked at when these are known.
    """
    options = dict(options)
    if isinstance(options.get("constraints"), Iterator):  # which can be gone through once
        options["constraints"] = tuple(options["constraints"])
    for name in options:
        if name in SAID:
            raise SpecError(f"{name} is said by the query text: leave it out")
        if name not in KNOWN:
            raise SpecError(f"a query text takes no {name!r}{alternatives(name, KNOWN, 'options')}")
    joins = [select for select in selects if len(select.sources) > 1]
    if options.get("memory") is not None and len(joins) != 1:
        raise SpecError(f"memory is the budget of one join, and this text has {len(joins)}: leave it out")
    declared = parse_constraints(options.get("constraints"))
    for constraint in declared if isinstance(declared, tuple) else ():
        if not any(set(constraint.streams) <= {s.alias for s in select.sources} for select in joins):
            raise SpecError(f"the constraint {constraint} speaks of streams that no join of this text has together")
    for select in joins:
        _check_join(select, text, {**options, "constraints": declared}, signed)
    if not joins:  # which none of them is for; what they say must still be something
        Query(streams=[Stream("a"), Stream("b")], on="k", **options)
    return options


def check_columns(what: str, given: Any, names: Sequence[str]) -> None:
    """Refuse what is neither a column nor a mapping from streams to columns."""
    if given is None or (isinstance(given, str) and given):
        return
    if not isinstance(given, Mapping):
        raise SpecError(f"{what} must be a column, or map each stream to one, got {given!r}")
    for name, column in given.items():
        if name not in names:
            raise InputError(f"{what}: the query has no stream {name!r}{alternatives(str(name), names, 'streams')}")
        if column is not None and not (isinstance(column, str) and column):
            raise SpecError(f"{what}: stream {name!r} needs the name of a column, got {column!r}")


def _check_join(select: Select, text: str, options: Mapping[str, Any], signed: Collection[str]) -> None:
    """Make the query of a join as far as it is known without columns."""
    windows = [s.window for s in select.sources if s.window is not None and s.window.length is not None]
    timed = all(w.length.unit == "ns" for w in windows if w.length is not None)
    streams = [_stream(source, timed, signed) for source in select.sources]
    aliases = [stream.name for stream in streams]
    own = options_for(options, aliases)
    try:
        block = unbound(select, text)
    except CqlError:  # names without a source, which only the columns of streams tell apart
        if isinstance(own.get("constraints"), list):
            own["constraints"] = "auto"  # in place of declared ones, whose columns are not known either
        Query(streams=streams, on=[Equal(f"{aliases[0]}.k", f"{alias}.k") for alias in aliases[1:]], **own)
        return
    join_query(block, streams, **own)


def _stream(source: Source, timed: bool, signed: Collection[str]) -> Stream:
    """A source as a stream of the engine."""
    if is_plain(source) and source.what not in signed:
        return Stream(source.alias, SINCE, plain_window(source.window, timed))
    return Stream(source.alias, SINCE, sign=SIGN, identity=[ROW])
