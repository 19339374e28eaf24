"""Coding: Arrow columns as numpy arrays of 64-bit codes; here is all that the engine uses of it.

`coding_types` says what compares with what, `coding_keys` codes equality keys, `coding_numbers` the columns
of comparisons and bands, `coding_times` event times, and `sizes` counts what a row's payload weighs. All of
it is vectorised: time per column and chunk is Python's, time per row is not.
"""

from windrow.state.coding_keys import cast_keys, key_codes, keys_equal, value_codes
from windrow.state.coding_numbers import number_codes, ordered_codes, width_in_units
from windrow.state.coding_times import (
    TimeDomain,
    as_word,
    duration_in_units,
    lengths,
    moment,
    ticks_of,
    time_domain,
    times,
)
from windrow.state.coding_types import Domain, common_key_type, common_number_type, exact_codes, family, value_type
from windrow.state.sizes import row_bytes

__all__ = [
    "Domain",
    "TimeDomain",
    "as_word",
    "cast_keys",
    "common_key_type",
    "common_number_type",
    "duration_in_units",
    "exact_codes",
    "family",
    "key_codes",
    "keys_equal",
    "lengths",
    "moment",
    "number_codes",
    "ordered_codes",
    "row_bytes",
    "ticks_of",
    "time_domain",
    "times",
    "value_codes",
    "value_type",
    "width_in_units",
]
