"""Random query texts, and small streams for them."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

STREAMS = ("S", "T")
COLUMNS = ("k", "g", "v")
_AGGREGATES = (
    "sum({0})", "count(*)", "count({0})", "min({0})", "max({0})", "avg({0})", "count(distinct {0})",
    "sum({0}) - count(*)", "max({0} + 1)", "sum(distinct {0})",
)  # fmt: skip


def rows_of(random: Random, count: int, nulls: float) -> list[dict[str, Any]]:
    """Rows with a time that may repeat, two keys and a value."""
    time, found = random.randrange(3), []
    for _ in range(count):
        time += random.choice([0, 0, 1, 1, 2, 5])
        row = {"t": time, "k": random.randrange(3), "g": random.randrange(2), "v": random.randrange(-3, 6)}
        found.append({name: None if name != "t" and random.random() < nulls else v for name, v in row.items()})
    return found


def text_of(random: Random, depth: int = 2) -> str:
    """A query text with blocks in blocks, of which the outermost may be a stream."""
    return _select(random, depth, top=True)[0]


def _window(random: Random) -> str:
    return random.choice([
        "[Range 0]", "[Range 2]", "[Range 7]", "[Range Unbounded]", "", "[Now]", "[Rows 1]", "[Rows 3]",
        "[Partition By k Rows 1]", "[Partition By k Rows 2]", "[Partition By k, g Rows 1]",
    ])  # fmt: skip


def _source(random: Random, alias: str, depth: int) -> tuple[str, list[str]]:
    if depth == 0 or random.random() < 0.5:
        window = _window(random)
        inner = f"{random.choice(STREAMS)} {window}"
        return (f"({inner}) as {alias}" if random.random() < 0.3 else f"{inner} as {alias}"), list(COLUMNS)
    text, columns, streams = _select(random, depth - 1, top=False)
    window = (
        _window(random).replace("Partition By k, g", f"Partition By {columns[0]}").replace("By k ", f"By {columns[0]} ")
    )
    return f"({text}) {window if streams else ''} as {alias}", columns


def _select(random: Random, depth: int, top: bool) -> tuple[str, list[str], bool]:
    count = random.choice([1, 1, 2, 2, 3]) if depth else random.choice([1, 2])
    aliases = [f"x{depth}{k}" for k in range(count)]
    sources, known = [], {}
    for alias in aliases:
        text, known[alias] = _source(random, alias, depth)
        sources.append(text)
    where = [f"{a}.{random.choice(known[a])} = {b}.{random.choice(known[b])}" for a, b in pairwise(aliases)]
    where += [_condition(random, aliases, known) for _ in range(random.choice([0, 0, 1, 2]))]
    items, columns, tail = _output(random, aliases, known)
    distinct = "Distinct " if not tail and random.random() < 0.3 else ""
    emit = random.choice(["", "", "Istream", "Dstream"]) if top or random.random() < 0.2 else ""
    listed = f"{emit}({distinct}{items})" if emit else f"{distinct}{items}"
    text = f"Select {listed} From {', '.join(sources)}" + (f" Where {' and '.join(where)}" if where else "") + tail
    return text, columns, bool(emit)


def _column(random: Random, aliases: list[str], known: dict[str, list[str]]) -> str:
    alias = random.choice(aliases)
    return f"{alias}.{random.choice(known[alias])}"


def _condition(random: Random, aliases: list[str], known: dict[str, list[str]]) -> str:
    one, other = _column(random, aliases, known), _column(random, aliases, known)
    return random.choice([
        f"{one} > {random.randrange(-2, 4)}", f"{one} != {other}", f"({one} = 1 or {other} < 2)", f"not {one} = 2",
        f"{one} is not null", f"{one} in (0, 1, 4)", f"{one} between 0 and 3", f"{one} + {other} < 5",
        f"2 >= {one}", f"{one} <= {other}",
    ])  # fmt: skip


def _output(random: Random, aliases: list[str], known: dict[str, list[str]]) -> tuple[str, list[str], str]:
    """Items, the names of the output columns, and what stands at the end."""
    if random.random() < 0.45:
        chosen = random.choices(_AGGREGATES, k=random.choice([1, 2]))
        aggregates = [text.format(_column(random, aliases, known)) for text in chosen]
        by = list(dict.fromkeys(_column(random, aliases, known) for _ in range(random.choice([0, 1, 1, 2]))))
        columns = [f"c{n}" for n in range(len(by) + len(aggregates))]
        items = ", ".join(f"{value} as {name}" for value, name in zip([*by, *aggregates], columns, strict=True))
        group = f" Group By {', '.join(by)}" if by else ""
        having = random.choice(["", "", " Having count(*) > 1", " Having count(*) = 2 or min({0}) > 0"])
        return items, columns, group + having.format(_column(random, aliases, known))
    values = [_column(random, aliases, known) for _ in range(random.choice([1, 2, 3]))]
    if random.random() < 0.2:
        values[0] = f"{values[0]} * 2 + 1"
    columns = [f"c{n}" for n in range(len(values))]
    return ", ".join(f"{value} as {name}" for value, name in zip(values, columns, strict=True)), columns, ""
