"""Results that are kept up to date: what has to go row by row, because each step needs the one before."""

from typing import Any

import numpy as np

from windrow.kernels.jit import entry


@entry
def named_rows(group: Any, since: Any, until: Any, wanted: Any, at: Any) -> Any:
    """For each deletion, the oldest row of its group that is in just before its instant and not deleted yet; or -1.

    Rows are sorted by group and age, deletions by group and instant; of a group older rows never leave later.
    """
    found = np.full(wanted.shape[0], -1, np.int64)
    row = 0
    for k in range(wanted.shape[0]):
        while row < group.shape[0] and (group[row] < wanted[k] or (group[row] == wanted[k] and until[row] < at[k])):
            row += 1
        if row < group.shape[0] and group[row] == wanted[k] and since[row] < at[k]:
            found[k] = row
            row += 1
    return found


@entry
def running_sums(begins: Any, place: Any, amount: Any, high: Any, low: Any) -> None:
    """The sums of amounts so far, for each of a row of places, from the last place that begins anew.

    Amounts are sorted by place. A sum is two floats that do not overlap (Knuth's exact addition), so that what is added
    and taken away again leaves nothing: `high` is the sum, `low` what it has lost by rounding.
    """
    total, rest, k = 0.0, 0.0, 0
    for i in range(begins.shape[0]):
        if begins[i]:
            total, rest = 0.0, 0.0
        while k < place.shape[0] and place[k] == i:
            x = amount[k]
            s = total + x
            b = s - total
            e = (total - (s - b)) + (x - b) + rest
            total = s + e
            rest = e - (total - s)
            k += 1
        high[i] = total
        low[i] = rest
