"""Sites that are killed with SIGKILL again and again, and a link that is down for a while: same output as one engine.

Three sites, a stream at each, served as processes that read files at a pace. At random moments a site is killed, and
comes back a moment later from its folder; meanwhile one link says nothing for some seconds. In the end the matches that
the sites have written are those of one engine that sees all streams. Snapshots are taken often, so that kills fall
before, while and after they are written.
"""

import argparse
import random
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from harness import note, save, show
from sites_places import Places, Relay, free_ports, one_engine, same, streams, write_description, write_files

import windrow as wr

NAMES = {"a": "north", "b": "south", "c": "west"}
SEQUENCES = {
    "a": [["b", "SM-S2"], ["c", "SM-D1"]],
    "b": [["c", "SM-D2"], ["a", "SP-D"]],
    "c": [["a", "SM-S1"], ["b", "SP-S"]],
}


def described(root: Path, ports: dict[str, tuple[int, int]], seconds: float) -> Path:
    """The description; sites reach each other through relays."""
    sites = {
        name: {"address": f"127.0.0.1:{outer}", "listen": f"127.0.0.1:{inner}"}
        for name, (outer, inner) in ports.items()
    }
    stream = {"time": "ts", "window": "3 seconds", "lateness": "200 ms"}
    data = {
        "snapshot": "300 kB",
        "on": "k",
        "select": [["a.id", "a"], ["b.id", "b"], ["c.id", "c"], ["b.text", "text"]],
        "interval": "200 ms",
        "delay": "100 ms",
        "streams": {name: {"site": site, "file": name, "pace": 1.0, **stream} for name, site in NAMES.items()},
        "sites": sites,
        "plan": {"sequences": SEQUENCES},
    }
    return write_description(root / "sites.json", data)


def disturb(places: Places, relays: list[Relay], args: argparse.Namespace) -> list[dict[str, Any]]:
    """Kill sites and cut a link, spread over the run."""
    chance = random.Random(args.seed)
    began, kills = time.monotonic(), []
    pause = args.seconds / (args.kills + 2)
    cut = threading.Timer(args.seconds / 3, lambda: _cut(relays[chance.randrange(len(relays))], args.down))
    cut.daemon = True
    cut.start()
    for k in range(args.kills):
        moment = began + pause * (k + 0.5 + chance.random())
        time.sleep(max(0.0, moment - time.monotonic()))
        name = chance.choice(places.names)
        places.kill(name)
        time.sleep(chance.random() * 0.8)
        places.start(name)
        kills.append({"site": name, "second": round(time.monotonic() - began, 2)})
        note(f"  kill {k + 1}/{args.kills}: {name}")
    return kills


def _cut(relay: Relay, seconds: float) -> None:
    note("  a link goes down")
    relay.down = True
    time.sleep(seconds)
    relay.down = False
    note("  the link is back")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=100.0, help="how long the streams last")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--down", type=float, default=12.0, help="seconds without a link")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        tables = streams(NAMES, args.rows, int(1000 * args.seconds), args.rows // 12, args.seed)
        write_files(root, tables, 4)
        ports = free_ports(2 * len(NAMES))
        pairs = {site: (ports[2 * k], ports[2 * k + 1]) for k, site in enumerate(NAMES.values())}
        relays = [Relay(*pair) for pair in pairs.values()]
        places = Places(described(root, pairs, args.seconds), pairs)
        for name in places.names:
            places.start(name)
        try:
            kills = disturb(places, relays, args)
            places.finish(args.seconds + 240)
        finally:
            places.stop()
        description = wr.sites.describe(places.file)
        expected, found = one_engine(description.query, tables), wr.sites.results(places.file)
        equal = same(found, expected)
        figures = {"kills": kills, "matches": expected.num_rows, "found": found.num_rows, "same": equal}
        header = ["kills", "link down", "matches of one engine", "matches of the sites", "same"]
        line = [len(kills), f"{args.down:g} s", expected.num_rows, found.num_rows, str(equal)]
        show("sites killed and a link cut", header, [line])
        note(str(save("sites_crash", {**figures, "seed": args.seed})))
        if not equal or not expected.num_rows:
            logs = "\n".join(f"== {name}\n{places.log(name)}" for name in places.names)
            sys.exit(f"the sites gave other matches than one engine (seed {args.seed})\n{logs}")


if __name__ == "__main__":
    main()
