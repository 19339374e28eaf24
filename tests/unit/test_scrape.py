"""Metrics of a Spark query as Prometheus scrapes them: the text format to the letter, and the address that gives it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import windrow as wr
from windrow.spark.metrics import COUNTERS, NAME, QueryMetrics

HELP = re.compile(r"# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) (\S.*)")
TYPE = re.compile(r"# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge)")
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\\\|\\"|\\n)*"'
SAMPLE = re.compile(rf"([a-zA-Z_:][a-zA-Z0-9_:]*)\{{({LABEL}(?:,{LABEL})*)\}} (-?[0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?)")
NAMES = ["clicks", 'it "says"', "back\\slash\\", "two\nlines", "a{b}=c,d", "größe 日本", "\\n"]


def parsed(text: str) -> dict[str, tuple[str, dict[tuple[tuple[str, str], ...], float]]]:
    """Families by name, (kind, value by labels); whatever the format does not allow fails."""
    assert text.endswith("\n") and not text.endswith("\n\n")
    found: dict[str, tuple[str, dict[tuple[tuple[str, str], ...], float]]] = {}
    helped = family = ""
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("# HELP"):
            (helped, _), family = HELP.fullmatch(line).groups(), ""  # type: ignore[union-attr]
        elif line.startswith("# TYPE"):
            family, kind = TYPE.fullmatch(line).groups()  # type: ignore[union-attr]
            assert family == helped and family not in found
            assert family.endswith("_total") == (kind == "counter")
            found[family] = kind, {}
        else:
            name, labels, value = SAMPLE.fullmatch(line).groups()  # type: ignore[union-attr]
            assert name == family, "samples follow the lines that tell of them"
            pairs = tuple((n, unescaped(v)) for n, v in re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels))
            assert pairs not in found[name][1]
            found[name][1][pairs] = float(value)
    return found


def unescaped(value: str) -> str:
    return re.sub(r"\\(.)", lambda found: {"n": "\n"}.get(found[1], found[1]), value)


def observed(names: str, *shards: int) -> dict[str, str]:
    """What some shards of a join have reported."""
    streams, lines = [wr.Stream(stream, "t", 10) for stream in names], []
    for shard in shards:
        engine = wr.Engine(wr.Query(streams=streams, on="k", memory=4, policy="fifo"))
        rows = pa.table({"k": [1] * 6, "t": [shard, 1, 20, 21, 22, 23]})
        engine.push(dict.fromkeys(names, rows))
        lines.append({"shard": shard, "metrics": json.dumps(engine.metrics.to_dict())})
    return {"shards": json.dumps(lines)}


def metrics_of(name: str | None) -> QueryMetrics:
    """What two shards of a query have reported."""
    found = QueryMetrics(SimpleNamespace(name=name, id="6a1f", recentProgress=[]))
    found.take({f"{NAME}1": observed("ab", 0, 3)}, 1)
    return found


@pytest.mark.parametrize("name", [*NAMES, None])
def test_the_text_is_what_prometheus_reads(name: str | None) -> None:
    metrics = metrics_of(name)
    families = parsed(metrics.to_prometheus())
    totals = metrics.to_dict()
    assert totals["expired"] > 0 and totals["shed"] > 0 and totals["matched"] > 0
    counters = {"arrived", "late", "ignored", "matched", "expired", "released", "shed"}
    for counter in COUNTERS:
        kind, samples = families.pop(f"windrow_{counter}_total" if counter in counters else f"windrow_{counter}")
        assert kind == ("counter" if counter in counters else "gauge")
        asked = {(("query", name or "6a1f"), ("shard", str(k))): s[counter] for k, s in metrics.shards.items()}
        assert samples == asked and sum(samples.values()) == totals[counter]
    assert families == {"windrow_recall": ("gauge", {(("query", name or "6a1f"),): metrics.recall})}


def test_joins_of_one_query_are_told_apart() -> None:
    """Catches counters of one join that take the place of another's, whose shards have the same numbers."""
    found = QueryMetrics()
    found.take({f"{NAME}2": observed("cd", 0), f"{NAME}1": observed("ab", 0, 3)}, 1)
    found.take({f"{NAME}1": observed("ab", 3)}, 2)
    told = found.to_dict()
    assert list(told["shards"]) == list(found.shards) == ["1/0", "1/3", "2/0"] and told["recall"] is None
    assert [list(join["shards"]) for join in told["joins"]] == [[0, 3], [0]]
    for counter in COUNTERS:
        assert told[counter] == sum(join[counter] for join in told["joins"]) == getattr(found.total(), counter)
    assert told["arrived"] == 36 and all(0 < join["recall"] < 1 for join in told["joins"])
    assert list(found.total().streams) == ["1/a", "1/b", "2/c", "2/d"]
    families = parsed(found.to_prometheus())
    assert sum(families["windrow_arrived_total"][1].values()) == 36
    recalls = {(("query", "batch"), ("join", str(k))): join["recall"] for k, join in enumerate(told["joins"], 1)}
    assert families["windrow_recall"][1] == recalls


def test_every_constraint_has_its_lines() -> None:
    """A constraint without a line, one under another's name or shard, a k of a unique key that has none, or a state
    that is a word where Prometheus wants a number."""
    found = QueryMetrics(SimpleNamespace(name="pairs", id="1", recentProgress=[]))
    streams = [wr.Stream(stream, "t", 100) for stream in "ab"]
    promised = [wr.Unique("b", "k"), wr.Integrity("a", "b", k=1), wr.Clustered("a", "k", k="3 steps")]
    lines = []
    for shard in (0, 3):
        engine = wr.Engine(wr.Query(streams=streams, on="k", constraints=promised))
        left, right = {"k": [1, 2, 1, 1], "t": [0, 1, 2, 9]}, {"k": [1, 4, 5], "t": [3, 4, 5]}
        engine.push({"a": pa.table(left), "b": pa.table(right)})
        lines.append({"shard": shard, "metrics": json.dumps(engine.metrics.to_dict())})
    found.take({f"{NAME}1": {"shards": json.dumps(lines)}}, 1)
    families = {name: one for name, one in parsed(found.to_prometheus()).items() if "constraint" in name}
    kinds = {"k": "", "used": "", "seen": "", "measured": "_total", "released": "_total", "violations": "_total"}
    assert set(families) == {f"windrow_constraint_{name}{end}" for name, end in kinds.items()}
    known = {shard: counters["constraints"] for shard, counters in found.shards.items()}
    assert len(known[0]) == 3 and known[0]["b is unique on k"]["released"] > 0
    assert any(one["violations"] > 0 for one in known[0].values())
    for name, end in kinds.items():
        kind, samples = families[f"windrow_constraint_{name}{end}"]
        assert kind == ("counter" if end else "gauge")
        assert samples == {
            (("query", "pairs"), ("shard", str(shard)), ("constraint", text)): float(one[name])
            for shard, mine in known.items()
            for text, one in mine.items()
            if one[name] is not None
        }
        assert len(samples) == (4 if name == "k" else 6)


def test_a_query_that_has_reported_nothing_has_no_samples() -> None:
    families = parsed(QueryMetrics().to_prometheus())
    assert len(families) == len(COUNTERS) and not any(samples for _, samples in families.values())


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    server = metrics_of("clicks").serve()
    yield server.server_address[:2]  # type: ignore[misc]
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("host", ["127.0.0.1", "no.such.host.invalid"])
def test_an_address_that_cannot_be_had_is_named(address: tuple[str, int], host: str) -> None:
    with pytest.raises(wr.errors.InputError, match=rf"cannot be served at {host}:{address[1]}: .*; port 0 takes"):
        metrics_of("clicks").serve(address[1], host)
    with pytest.raises(wr.errors.InputError, match=r"cannot be served at .*:70000: "):
        metrics_of("clicks").serve(70_000)


def answer(address: tuple[str, int], path: str, method: str = "GET") -> tuple[HTTPResponse, bytes]:
    connection = HTTPConnection(*address, timeout=30)
    connection.request(method, path)
    found = connection.getresponse()
    body = found.read()
    connection.close()
    return found, body


@pytest.mark.parametrize("path", ["/metrics", "/metrics?x=1", "/metrics?name[]=windrow_shed_total&a=b", "/metrics?"])
def test_metrics_whatever_the_query_string(address: tuple[str, int], path: str) -> None:
    found, body = answer(address, path)
    assert (found.status, found.headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert int(found.headers["Content-Length"]) == len(body)
    assert len(parsed(body.decode())) == len(COUNTERS) + 1


@pytest.mark.parametrize("path", ["/", "/metrics", "/metrics.json?pretty"])
def test_heads_without_a_body(address: tuple[str, int], path: str) -> None:
    whole, body = answer(address, path)
    head, nothing = answer(address, path, "HEAD")
    assert (head.status, nothing) == (whole.status, b"") == (200, b"")
    assert head.headers["Content-Length"] == whole.headers["Content-Length"] == str(len(body))
    assert head.headers["Content-Type"] == whole.headers["Content-Type"]


def test_json_an_index_and_what_is_not_there(address: tuple[str, int]) -> None:
    counters: dict[str, Any] = json.loads(answer(address, "/metrics.json?x")[1])
    assert counters["shards"].keys() == {"0", "3"}
    assert answer(address, "/")[1].decode().split() == ["/metrics", "/metrics.json"]
    for path in ("/other", "/metricsx", "/metrics/x", "/metrics.json/", "/x?/metrics"):
        assert answer(address, path)[0].status == 404, path
    assert answer(address, "/metrics", "POST")[0].status == 501
