"""Three sites in network namespaces, with links that `tc tbf` limits: output, bytes by the interfaces, delay.

Needs root, iproute2 and openssl. Each pair of sites has a link of its own (a veth pair with a token bucket at both
ends), and each site an address that the others reach over these links, so an interface's counter is what one link
carried. Latency is added by a relay at each site, through which it is reached: on the way there and on the way back.
Sites talk TLS with a certificate each.

    paced        streams from files, each row at its time: output, bytes, delay
    spark        one stream handed over by a Spark query, one by a query in a Connect session, one from files

Bytes: what the sites count (messages), what interfaces count (with TLS, HTTP/2, TCP, IP and acknowledgements), and what
the simulated ground counts for the same plan. Delay: from the end of an interval by the wall clock until its matches
are in a file, beside the simulation's and the cost model's.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from harness import note, save, show
from sites_places import Places, Relay, one_engine, same, streams, write_description, write_files

import windrow as wr

NAMES = {"a": "north", "b": "south", "c": "west"}
SITES = list(NAMES.values())
RATE, LATENCY = "4 Mbit/s", 0.025
OUTER, INNER = 7015, 7016


def run(*words: str, **options: Any) -> str:
    """A command that must succeed."""
    ran = subprocess.run(words, capture_output=True, text=True, **options)
    if ran.returncode:
        sys.exit(f"{' '.join(words)}: {ran.stderr.strip()}")
    return ran.stdout


def address(site: str) -> str:
    return f"10.77.0.{SITES.index(site) + 1}"


class Network:
    """Namespaces and links; gone when it is closed."""

    def __init__(self, kbit: int) -> None:
        self.tag = f"wr{os.getpid() % 10_000}"
        for site in SITES:
            run("ip", "netns", "add", self.space(site))
            self.inside(site, "ip", "link", "set", "lo", "up")
            self.inside(site, "ip", "address", "add", f"{address(site)}/32", "dev", "lo")
        for k, (one, other) in enumerate(combinations(SITES, 2)):
            self._link(k, one, other, kbit)

    def space(self, site: str) -> str:
        return f"{self.tag}-{site}"

    def inside(self, site: str, *words: str) -> str:
        return run("ip", "netns", "exec", self.space(site), *words)

    def _link(self, k: int, one: str, other: str, kbit: int) -> None:
        ends = {one: f"to-{other}", other: f"to-{one}"}
        run("ip", "link", "add", ends[one], "netns", self.space(one), "type", "veth",
            "peer", "name", ends[other], "netns", self.space(other))  # fmt: skip
        for site in (one, other):
            name, own = ends[site], f"10.77.{k + 1}.{SITES.index(site) + 1}"
            self.inside(site, "ip", "address", "add", f"{own}/24", "dev", name)
            self.inside(site, "ip", "link", "set", name, "up")
            self.inside(site, "tc", "qdisc", "add", "dev", name, "root", "tbf", "rate", f"{kbit}kbit",
                        "burst", "16kb", "latency", "2000ms")  # fmt: skip
        for site, there in ((one, other), (other, one)):
            via = f"10.77.{k + 1}.{SITES.index(there) + 1}"
            self.inside(site, "ip", "route", "add", f"{address(there)}/32", "via", via, "src", address(site))

    def sent(self) -> dict[str, int]:
        """Bytes that left on each link."""
        return {
            f"{site} -> {other}": int(self.inside(site, "cat", f"/sys/class/net/to-{other}/statistics/tx_bytes"))
            for site in SITES for other in SITES if site != other
        }  # fmt: skip

    def close(self) -> None:
        for site in SITES:
            subprocess.run(["ip", "netns", "delete", self.space(site)], capture_output=True)


def certificates(root: Path) -> None:
    """An authority, and a certificate for each site."""
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    run("openssl", "req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=sites", cwd=root)
    for site in SITES:
        (root / "names").write_text(f"subjectAltName=DNS:{site}")
        asked = ["-keyout", f"{site}.key", "-out", f"{site}.csr", "-subj", f"/CN={site}"]
        run("openssl", "req", *curve[:-2], *asked, cwd=root)
        run("openssl", "x509", "-req", "-in", f"{site}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
            "-out", f"{site}.pem", "-days", "2", "-extfile", "names", cwd=root)  # fmt: skip


def described(root: Path, tables: dict[str, pa.Table], starts: float | None, fed: dict[str, str]) -> Path:
    """The description: a plan for these streams and links."""
    schema = {"ts": "timestamp[us]", "k": "int64", "id": "int64", "text": "string"}
    stream = {"time": "ts", "window": "3 seconds", "schema": schema}
    links = {
        f"{one} - {other}": {"bandwidth": RATE, "latency": f"{1000 * LATENCY:g} ms"}
        for one, other in combinations(SITES, 2)
    }
    data: dict[str, Any] = {
        "on": "k", "select": [["a.id", "a"], ["b.id", "b"], ["c.id", "c"], ["a.text", "x"], ["b.text", "y"]],
        "interval": "500 ms", "delay": "250 ms", "objective": "bytes", "plan": "plan.json",
        "streams": {name: {"site": site, **stream} for name, site in NAMES.items()},
        "links": links,
        "sites": {
            site: {"address": f"{address(site)}:{OUTER}", "listen": f"127.0.0.1:{INNER}",
                   "certificate": f"{site}.pem", "key": f"{site}.key"}
            for site in SITES
        },
        "security": {"authority": "ca.pem"},
    }  # fmt: skip
    for name in NAMES:
        if name not in fed:
            data["streams"][name]["file"] = name
            if starts is not None:
                data["streams"][name] |= {"pace": 1.0, "starts": starts}
    return write_description(root / "sites.json", data)


def planned(file: Path, tables: dict[str, pa.Table]) -> Any:
    from windrow.sites.setting import read_setting, write_plan

    setting = read_setting(file)
    found = wr.sites.plan(
        setting.query, setting.sites, setting.links, samples=tables, interval=setting.interval, delay=setting.delay,
        objective="bytes", origin=0,
    )  # fmt: skip
    write_plan(file.parent / "plan.json", found)
    return found


def delays(file: Path, starts: float, tau: float) -> list[float]:
    """Seconds from the end of each interval by the wall clock until its matches were there."""
    found = []
    for station in wr.sites.describe(file).stations.values():
        for path in (station.folder / "results").rglob("0*.parquet"):
            found.append(path.stat().st_mtime - (starts + (int(path.stem) + 1) * tau))
    return found


def feeding(file: Path, stream: str, kind: str) -> None:
    """A program at a place: a Spark query that hands the files of a stream over."""
    from pyspark.sql import SparkSession

    settings = {"spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1",
                "spark.sql.session.timeZone": "UTC", "spark.log.level": "OFF"}  # fmt: skip
    builder = SparkSession.builder.remote("local[1]") if kind == "connect" else SparkSession.builder.master("local[1]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    folder = str(file.parent / stream)
    schema = spark.read.parquet(folder).schema
    frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(folder)
    print(type(frame).__module__, flush=True)
    query = wr.sites.feed(frame, file, stream, checkpoint=str(file.parent / f"{stream}.checkpoint"),
                          trigger={"availableNow": True})  # fmt: skip
    query.awaitTermination()
    wr.sites.end(file, stream)
    spark.stop()


def trial(kind: str, args: argparse.Namespace, network: Network) -> dict[str, Any]:
    """One run; what it gave and what it cost."""
    fed = {"b": "classic", "c": "connect"} if kind == "spark" else {}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        certificates(root)
        tables = streams(NAMES, args.rows, int(1000 * args.seconds), args.rows // 2, args.seed, width=60)
        write_files(root, tables, 5)
        starts = time.time() + 20.0 if kind == "paced" else None
        file = described(root, tables, starts, fed)
        plan = planned(file, tables)
        description = wr.sites.describe(file)
        before = network.sent()
        places = Places(file, SITES, {site: ["ip", "netns", "exec", network.space(site)] for site in SITES})
        relays = [_relay(site, network) for site in SITES]
        for site in SITES:
            places.start(site)
        feeders = [_feeder(file, stream, how, network) for stream, how in fed.items()]
        try:
            for feeder in feeders:
                if feeder.wait(600):
                    sys.exit(f"a feeder failed:\n{(root / 'feeders.log').read_text()[-3000:]}")
            places.finish(args.seconds + 300)
        finally:
            places.stop()
            for process in [*feeders, *relays]:
                process.kill()
        after = network.sent()
        expected = one_engine(description.query, tables)
        simulated = wr.sites.simulate(plan, tables, description.setting.links)
        found: dict[str, Any] = {
            "matches": expected.num_rows,
            "same": same(wr.sites.results(file), expected),
            "links": _links(description, before, after, simulated),
            "plan": plan.drawing(),
        }
        if starts is not None:
            found |= _delays(file, starts, plan, simulated)
        if fed:
            found["feeders"] = (root / "feeders.log").read_text().split()
        if not found["same"]:
            print("\n".join(places.log(site) for site in SITES))
        return found


def _relay(site: str, network: Network) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["ip", "netns", "exec", network.space(site), sys.executable, __file__, "--relay", site])


def _feeder(file: Path, stream: str, how: str, network: Network) -> subprocess.Popen[bytes]:
    path = [str(Path(wr.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYSPARK_PYTHON": sys.executable}
    words = ["ip", "netns", "exec", network.space(NAMES[stream]), sys.executable, __file__]
    words += ["--feed", str(file), stream, how]
    with (file.parent / "feeders.log").open("ab") as out, (file.parent / "feeders.err").open("ab") as err:
        return subprocess.Popen(words, env=env, stdout=out, stderr=err)


def _links(description: Any, before: dict[str, int], after: dict[str, int], simulated: Any) -> dict[str, Any]:
    import json

    found = {}
    for station in description.stations.values():
        figures = json.loads((station.folder / "figures.json").read_text())
        for other, link in figures["links"].items():
            ends = f"{station.name} -> {other}"
            traffic = simulated.links.get((station.name, other))
            found[ends] = {
                "messages": link["messages"],
                "bytes": link["with_headers"],
                "simulated": 0 if traffic is None else traffic.bytes,
                "interface": after[ends] - before[ends],
            }
    return found


def _delays(file: Path, starts: float, plan: Any, simulated: Any) -> dict[str, Any]:
    measured = delays(file, starts, 0.5)
    model: dict[str, float] = {}
    for line in plan.lines():
        model[line["head"]] = model.get(line["head"], 0.0) + line["delay_s"]
    return {
        "delay_mean_s": float(np.mean(measured)), "delay_max_s": max(measured),
        "simulated_mean_s": float(np.mean(simulated.delays)), "simulated_max_s": max(simulated.delays),
        "model_s": {head: round(seconds, 4) for head, seconds in model.items()},
    }  # fmt: skip


def report(kind: str, found: dict[str, Any]) -> None:
    lines = [[ends, *(link[name] for name in ("messages", "bytes", "simulated", "interface")),
              link["interface"] / link["bytes"] if link["bytes"] else 0.0]
             for ends, link in found["links"].items()]  # fmt: skip
    total = [sum(line[k] for line in lines) for k in range(1, 5)]
    lines.append(["all", *total, total[3] / total[1]])
    print(f"\n{found['plan']}")
    show(f"{kind}: {found['matches']:,} matches, as one engine: {found['same']}",
         ["link", "messages", "bytes of sites", "simulated", "interface", "ratio"], lines)  # fmt: skip
    if "delay_mean_s" in found:
        show("delay in seconds", ["", "mean", "max"], [
            ["measured", found["delay_mean_s"], found["delay_max_s"]],
            ["simulated", found["simulated_mean_s"], found["simulated_max_s"]],
        ])  # fmt: skip
        print(f"  the cost model's, summed over the steps of each sequence: {found['model_s']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=["paced", "spark"])
    parser.add_argument("--relay", metavar="SITE")
    parser.add_argument("--feed", nargs=3, metavar=("FILE", "STREAM", "KIND"))
    args = parser.parse_args()
    if args.feed:
        feeding(Path(args.feed[0]), *args.feed[1:])
        return
    if args.relay:
        Relay(OUTER, INNER, LATENCY, address(args.relay))
        threading.Event().wait()
    if os.geteuid() or not all(map(shutil.which, ("ip", "tc", "openssl"))):
        print("sites_network: needs root, iproute2 (ip, tc) and openssl: left out")
        return
    network, found = Network(4000), {}
    try:
        for kind in [args.only] if args.only else ["paced", "spark"]:
            note(f"  {kind}")
            found[kind] = trial(kind, args, network)
            report(kind, found[kind])
    finally:
        network.close()
    note(str(save("sites_network", found)))
    if not all(trial["same"] for trial in found.values()):
        sys.exit("the sites gave other matches than one engine")


if __name__ == "__main__":
    main()
