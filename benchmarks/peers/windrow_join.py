"""windrow embedded: CSV by Arrow, the join, and the same sum over the matches as the others."""

import pyarrow.compute as pc
import pyarrow.csv
from turns import main

import windrow as wr


def join(left: str, right: str, bound_ms: int, _workers: int) -> int:
    """The join itself runs on one core, whatever the number of workers."""
    a, b = (pyarrow.csv.read_csv(path) for path in (left, right))
    matches = wr.join(a, b, on="key", time="ts", within=bound_ms + 1).table
    assert pc.sum(pc.add(matches["left_amount"], matches["right_amount"])).is_valid
    return matches.num_rows


if __name__ == "__main__":
    main(join)
