"""What is done once in a Spark worker process.

Spark collects garbage after every task of a Python worker. All that numba, pandas and pyarrow have loaded is looked
through each time: 70 to 90 ms of a core per task, several tasks per micro-batch, more than packing 200,000 rows takes.
Things that stay for the life of the process are therefore set aside once they are there.
"""

import gc

_settled: set[str] = set()


def settle(role: str) -> None:
    """After the first task of each role, which has loaded what later ones use: set it aside from garbage collection."""
    if role not in _settled:
        _settled.add(role)
        gc.collect()
        gc.freeze()
