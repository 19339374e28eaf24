"""Hypothesis strategies for Arrow columns with everything that a reader of their memory can trip over."""

import pyarrow as pa
from hypothesis import strategies as st


def sliced(values, type_, before, after):
    """The values as an array that is a slice of a longer one, so that its offset is not zero."""
    return pa.array([*before, *values, *after], type=type_).slice(len(before), len(values))


@st.composite
def columns_of(draw, values, type_):
    """A column with these values, cut into chunks (some empty), each a slice of a longer array."""
    cuts = sorted(draw(st.lists(st.integers(0, len(values)), max_size=3)))
    spare = [*values, None]
    others = st.lists(st.sampled_from(spare), max_size=11)
    bounds = zip([0, *cuts], [*cuts, len(values)], strict=True)
    parts = [sliced(values[a:b], type_, draw(others), draw(others)) for a, b in bounds]
    if len(parts) == 1 and draw(st.booleans()):
        return parts[0]
    return pa.chunked_array(parts, type=type_)


@st.composite
def as_dictionary(draw, values, type_):
    """A dictionary column with these values: nulls by index and by value, unused and repeated entries.

    The dictionary may be shorter or longer than the chunks that use it; readers treat the two differently.
    """
    distinct = [v for i, v in enumerate(values) if not any(_same(v, w) for w in values[:i])]
    spare = draw(st.sampled_from([[], [None], [*values, None]]))
    entries = draw(st.permutations([*distinct, *spare]))
    places = {i: [j for j, entry in enumerate(entries) if _same(entry, v)] for i, v in enumerate(values)}
    indices = [
        None if v is None and draw(st.booleans()) else draw(st.sampled_from(places[i])) for i, v in enumerate(values)
    ]
    dictionary = pa.array(entries, type=type_)
    before = draw(st.integers(0, 3))
    # With an empty dictionary there is no row to put before the slice.
    before = before if entries else 0
    index = pa.array([0] * before + indices, type=draw(st.sampled_from([pa.int8(), pa.int32(), pa.uint16()])))
    whole = pa.DictionaryArray.from_arrays(index, dictionary).slice(before)
    cut = draw(st.integers(0, len(values)))
    return pa.chunked_array([whole.slice(0, cut), whole.slice(cut)], type=whole.type)


def _same(a, b):
    """Whether one entry may stand for both: equality that tells -0.0 from 0.0 and finds NaN in NaN."""
    return repr(a) == repr(b)
