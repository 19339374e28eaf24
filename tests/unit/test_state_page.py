"""docs/state.md says what a block holds, and is written from the declarations: it cannot fall behind them.

pytest tests/unit/test_state_page.py --write-readme     # writes the page anew
"""

from __future__ import annotations

from pathlib import Path

import pytest

from windrow.kernels import layout as at
from windrow.state.parts import PARTS

PAGE = Path(__file__).parents[2] / "docs" / "state.md"
TITLE = """# What a shard's memory holds

One block of 64-bit words, declared in `kernels/layout.py` (records) and `state/parts.py` (parts). This page is written
from those declarations (`tests/unit/test_state_page.py`).
"""
SAVED = "kept in snapshots"
MOVED = {
    "": "",
    "always": "moves to another plan's block",
    "learned": "moves where both plans learn alike",
    "same": "moves under the same policy",
}


def page() -> str:
    """The page as the declarations give it."""
    return "\n".join([TITLE, *_parts(), *(line for record in at.RECORDS for line in _record(record)), *_kept()]) + "\n"


def _parts() -> list[str]:
    lines = ["## Parts, in their order", "", "| part | holds | |", "|---|---|---|"]
    for part in PARTS:
        name = next(value.name for value in at.Head.fields() if value.offset == part.word).removesuffix("_at")
        again = "decided anew when the block grows" if part.rebuilt else ""
        lines.append(f"| {name} | {part.about} | {_facts(bool(part.saved), part.carried, again)} |")
    return [*lines, ""]


def _record(record: type[at.Record]) -> list[str]:
    about = " ".join((record.__doc__ or "").split())
    lines = [f"## {record.__name__}", "", about, "", "| word | holds | |", "|---|---|---|"]
    for value in record.words.values():
        there = f"if `{value.when}`" if value.when else ""
        kind = "" if value.kind is int else "a float"
        named = f"names a {value.names}" if value.names else ""
        lines.append(f"| {value.name} | {value.about} | {_facts(value.saved, value.moved, kind, named, there)} |")
    return [*lines, ""]


def _kept() -> list[str]:
    lines = ["## What keys keep beside their chains, a word for each stream", "", "| word | holds | |", "|---|---|---|"]
    return lines + [f"| {k.name} | {k.about} | {_facts(k.saved, '', f'if `{k.when}`')} |" for k in at.KEPT_OF_KEYS]


def _facts(saved: bool, moved: str, *more: str) -> str:
    return "; ".join(fact for fact in (*more, SAVED if saved else "", MOVED[moved]) if fact)


def test_the_page_is_what_is_declared(request: pytest.FixtureRequest) -> None:
    """The page names every word, as it is now."""
    if request.config.getoption("--write-readme"):
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page()


def test_no_word_stands_twice() -> None:
    """Words that every record has fill it without gaps; those that not every query has never overlap."""
    for record in at.RECORDS:
        places = [value.offset for value in record.fields()]
        assert places == list(range(record.size)), record
    sizes = {value.where: value.step + 1 for value in at.Slot.words.values() if value.where is not None}
    assert {word: size for word, (_, size) in at.OPTIONAL.items()} == sizes


def test_every_part_has_a_word_of_the_head() -> None:
    """Each part is listed once, and each place for one in the head has its part."""
    words = [part.word for part in PARTS]
    assert sorted(words) == sorted(value.offset for value in at.Head.fields() if value.name.endswith("_at"))
