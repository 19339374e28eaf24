"""Facts: what must stay the same for the life of a checkpoint and its archive, and what to say when it does not."""

from collections.abc import Iterator, Mapping
from typing import Any

from windrow.errors import WindrowError
from windrow.spark.job import LAYOUT, Job
from windrow.spec import changes

COLUMNS = "columns of "
AGE = "milliseconds that matches may lie behind"  # only where matches carry the watermark (join.py)
ANEW = "start anew: a new checkpoint and, where there is one, a new archive"


def facts_of(job: Job) -> dict[str, Any]:
    """What a checkpoint holds on to, by name, as JSON values."""
    columns = {
        f"{COLUMNS}{name}": {field.name: str(field.type) for field in job.schema(name)} for name in job.query.names
    }
    archive = "off" if job.archive is None else "on"
    age = {AGE: job.ahead_ms} if job.ahead_ms > 0 else {}
    return {"layout": LAYOUT, **job.query.fixed(), **columns, "shards": job.shards, "archive": archive, **age}


def archive_facts_of(job: Job) -> dict[str, Any]:
    """What an archive holds on to: windows, too, for which matches are missing depends on them."""
    windows = {f"window of {stream.name}": stream.window.to_dict() for stream in job.query.streams}
    return {**facts_of(job), **windows, "archive": "on"}


def refuse_changes(
    old: Mapping[str, Any], new: Mapping[str, Any], whose: str, error: type[WindrowError], what: str = "join"
) -> None:
    """Raise an error that says what was, what is now, and what to do, if anything differs."""
    if old.get("layout") != LAYOUT:
        raise error(f"{whose} was written by a windrow with another layout: go on with that one, or {ANEW}")
    columns = [name for name in {**old, **new} if name.startswith(COLUMNS)]
    carried = [AGE] if (AGE in old) != (AGE in new) else []
    told = changes(*({n: v for n, v in facts.items() if n not in columns + carried} for facts in (old, new)))
    if carried:
        was, now = ("carried", "do not") if AGE in old else ("did not carry", "do")
        told.append(
            f"matches {was} the watermark and now {now}, "
            "which they do with the RocksDB state store (windrow.spark.tune) and without withWatermark on the inputs"
        )
    for name in columns:
        told += _column_changes(old.get(name, {}), new.get(name, {}), name.removeprefix(COLUMNS))
    if told:
        advice = "".join(f". {hint}" for hint in _hints(old, new))
        raise error(f"{whose} is of another {what}: {'; '.join(told)}. Set that back, or {ANEW}{advice}")


def _hints(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """Where to look for what a user may not have said with these words."""
    if None not in (was := old.get("shards"), now := new.get("shards")) and was != now:
        yield "Where shards= is not given, spark.sql.shuffle.partitions says how many there are"
    if AGE in old and AGE in new and old[AGE] != new[AGE]:  # join.py, age_ms
        yield (
            f"The longest window (within=) may change between {old[AGE] // 2:,} and {old[AGE] - 2:,} milliseconds "
            "only, for matches carry the watermark"
        )


def _column_changes(old: Mapping[str, str], new: Mapping[str, str], stream: str) -> list[str]:
    told = [f"{stream} has no column {name!r} any more" for name in old if name not in new]
    told += [f"{stream} has a new column {name!r}" for name in new if name not in old]
    both = [name for name in old if name in new and old[name] != new[name]]
    told += [f"column {name!r} of {stream} was {old[name]} and is now {new[name]}" for name in both]
    if not told and list(old) != list(new):
        told.append(f"the columns of {stream} are in another order")
    return told
