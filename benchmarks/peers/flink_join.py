"""Flink's interval join (PyFlink, SQL, streaming mode, bounded files), with the Python of Flink's environment.

The join runs in the JVM: no row passes through Python. Its count is kept in mini-batches, so that it does not send two
updates for every match. CSV files have no header for Flink, which cannot skip one.
"""

from pyflink.table import EnvironmentSettings, TableEnvironment
from turns import main

SOURCE = """
    create temporary table {side} (
        ts bigint, `key` bigint, amount double,
        tick as to_timestamp_ltz(ts, 3), watermark for tick as tick
    ) with ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')
"""
JOIN = """
    select count(*) as n, sum(amounts) as total from (
        select l.amount + r.amount as amounts
        from left_rows l join right_rows r on l.`key` = r.`key`
         and l.tick between r.tick - interval '{bound}' second(3, 3) and r.tick + interval '{bound}' second(3, 3)
    )
"""
OPTIONS = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "1 s",
    "table.exec.mini-batch.size": "100000",
}


def join(left: str, right: str, bound_ms: int, workers: int) -> int:
    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for option, value in {**OPTIONS, "parallelism.default": str(workers)}.items():
        environment.get_config().set(option, value)
    for side, path in (("left_rows", left), ("right_rows", right)):
        environment.execute_sql(SOURCE.format(side=side, path=path.replace(".csv", ".bare.csv")))
    bound = f"{bound_ms // 1000}.{bound_ms % 1000:03}"
    count = 0
    with environment.execute_sql(JOIN.format(bound=bound)).collect() as rows:
        for row in rows:
            count = row[0]
    return count


if __name__ == "__main__":
    main(join)
