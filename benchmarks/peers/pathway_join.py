"""Pathway's interval join over static files, with the Python of Pathway's environment."""

import pathway as pw
from turns import main


class Row(pw.Schema):
    ts: int
    key: int
    amount: float


def join(left: str, right: str, bound_ms: int, _workers: int) -> int:
    """The number of workers stands in PATHWAY_THREADS, which is read when Pathway is imported."""
    pw.internals.parse_graph.G.clear()
    a, b = (pw.io.csv.read(path, schema=Row, mode="static") for path in (left, right))
    pairs = a.interval_join(b, a.ts, b.ts, pw.temporal.interval(-bound_ms, bound_ms), a.key == b.key)
    amounts = pairs.select(amounts=a.amount + b.amount)
    total = amounts.reduce(n=pw.reducers.count(), total=pw.reducers.sum(pw.this.amounts))
    seen: list[int] = []
    pw.io.subscribe(total, on_change=lambda key, row, time, is_addition: seen.append(row["n"]) if is_addition else None)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    return seen[-1]


if __name__ == "__main__":
    main(join)
