"""Compiles the kernels of a driver before the tests: `python tests/compiling.py pair`, and the same with `many`.

The two run side by side; the tests' processes then find on disk what each of them would otherwise compile for itself.
"""

import sys

import pyarrow as pa

import windrow as wr

STREAMS = {"pair": "ab", "many": "abc"}


def run(driver: str) -> None:
    rows = pa.table({"t": [1, 2], "k": [1, 2]})
    streams = [wr.Stream(name, "t", wr.Window.time(5)) for name in STREAMS[driver]]
    engine = wr.Engine(wr.Query(streams=streams, on="k", memory=10))
    engine.push(dict.fromkeys(STREAMS[driver], rows))
    wr.Engine.restore(engine.snapshot()).memory = 5


if __name__ == "__main__":
    run(sys.argv[1])
