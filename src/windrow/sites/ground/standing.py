"""Standing: where the steps of a site stand: what they wait for, and which intervals they never take."""

from windrow.sites.network import Network
from windrow.sites.site import Site


def lacking(site: Site) -> dict[str, int]:
    """Which other sites, or own streams, have not brought what the steps that are furthest behind wait for."""
    found: dict[str, int] = {}
    for placed, interval in zip(site.placed, site.next, strict=True):
        for port in placed.reads:
            at = interval - port.lag
            if not site.network.known(port.channel) or at < 0 or at in site.waiting[port.channel]:
                continue
            home = site.network.home(port.channel)
            who = f"site {home}"
            if home == site.name:
                stream = site.network.sources.get(port.channel)
                if stream is None:
                    continue  # another step here, which waits itself
                who = f"stream {stream}"
            found[who] = min(at, found.get(who, at))
    return found


def shortfalls(network: Network) -> dict[str, int]:
    """How many of the last intervals each step never takes, since what it reads of them is written later."""
    short = dict.fromkeys((step.name for step in network.steps), 0)
    moved = True
    while moved:
        moved = False
        for step in network.steps:
            for port in step.reads:
                if port.channel in network.writers:
                    writer, lag = network.writers[port.channel]
                    found = short[writer.name] + lag - port.lag
                    if found > short[step.name]:
                        short[step.name], moved = found, True
    return short
