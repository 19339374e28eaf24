"""Books of rows that are in for now. Can catch: rows found twice or not at all, rows that leave twice, a look-up
that copies the book, which makes a push cost what is held instead of what it brings, and one that is saved by sorting.
"""

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.maintained import book as books
from windrow.maintained.book import Book
from windrow.state.columns import places_of

NONE = pa.table({"v": pa.array([], pa.int64())})
MANY = 1 << 18


@given(st.lists(st.integers(-3, 3), max_size=30), st.lists(st.integers(-4, 4), max_size=10))
def test_places_are_those_of_a_plain_search(values, wanted):
    column = np.array(values, np.int64)
    places, which = places_of(column, np.argsort(column, kind="stable"), np.array(wanted, np.int64))
    expected = [(place, k) for k, one in enumerate(wanted) for place, value in enumerate(values) if value == one]
    assert list(zip(places.tolist(), which.tolist(), strict=True)) == expected


@given(st.lists(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 20)), max_size=6), max_size=12))
def test_a_book_is_a_list_of_rows(pushes):
    """Rows (key, how long they stay) come push by push; each leaves once, when it is due."""
    book, plain, count = Book(1), [], 0
    for now, rows in enumerate(pushes):
        due = book.due(now)
        left = sorted(zip(book.ids(due).tolist(), book.until(due).tolist(), strict=True))
        assert left == sorted((number, until) for number, _, until in plain if until <= now)
        book.drop(due)
        plain = [row for row in plain if row[2] > now]
        new = [(count + k, key, now + stay) for k, (key, stay) in enumerate(rows)]
        count, plain = count + len(new), plain + new
        ids, keys, until = (np.array([row[k] for row in new], np.int64) for k in range(3))
        book.add(ids, pa.table({"v": keys}), until, [keys])
        wanted = np.arange(7)
        found, of = book.find(0, wanted)
        assert sorted(zip(book.ids(found).tolist(), of.tolist(), strict=True)) == sorted(row[:2] for row in plain)
        assert book.take(found, NONE)["v"].to_pylist() == book.key(0, found).tolist() == of.tolist()
        assert len(book) == len(plain)


@pytest.mark.parametrize("asked", ["find", "due"])
def test_a_look_up_copies_nothing_of_the_book(asked):
    book, numbers = Book(1), np.arange(MANY)
    book.add(numbers, pa.table({"v": numbers}), numbers + 10, [numbers])
    tracemalloc.start()
    found = book.find(0, np.array([7, MANY - 1]))[0] if asked == "find" else book.due(11)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert book.ids(found).tolist() == ([7, MANY - 1] if asked == "find" else [0, 1])
    assert peak < MANY, "a byte for each row that is held: so much is copied by a look-up that reads all keys"


def test_a_book_is_saved_as_it_lies(monkeypatch):
    """Its chunks one behind the other: not merged two by two, which would sort all rows once for every chunk."""
    book = Book(1)
    for first, count in ((0, 64), (64, 16), (80, 4), (84, 1)):
        ids = np.arange(first, first + count)
        book.add(ids, pa.table({"v": ids}), ids + 100, [ids % 7])
    book.drop(book.due(103))
    assert len(book.chunks) == 4
    with monkeypatch.context() as patch:
        patch.setattr(books, "Chunk", None)
        saved = book.saved()
    again = Book(1)
    again.restore(saved)
    assert again.ids(again.all()).tolist() == book.ids(book.all()).tolist() == list(range(4, 85))
    assert again.take(again.all(), NONE)["v"].to_pylist() == list(range(4, 85)) and again.saved().equals(saved)
