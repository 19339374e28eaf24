"""A query text over DataFrames gives what it gives over tables.

Catches: names of streams, columns or times that get lost on the way, windows that mean something else on Spark.
"""

from typing import Any

import pyarrow as pa

import windrow as wr
from windrow.lab.traffic import network_links

TEXT = """
Select Istream(First.pid, B.size as bytes) From C [Range 2 seconds] as First, B [Range 1 second]
Where First.pid = B.pid and B.size > 100
"""


def test_a_text_over_frames(spark: Any) -> None:
    links = network_links(3, rates=(400, 800, 10), onward=(0.5, 0.5), seed=2)
    tables = {name: links[name] for name in "CB"}
    frames = {name: spark.createDataFrame(table.to_pandas()) for name, table in tables.items()}
    found = wr.cql(TEXT).on_spark(frames).toArrow()
    wanted = wr.cql(TEXT).run(tables).values
    order = [("pid", "ascending"), ("bytes", "ascending")]
    assert wanted.num_rows > 100
    assert pa.table(found.sort_by(order).to_pydict()) == pa.table(wanted.sort_by(order).to_pydict())
