"""Seconds of a core that a process and all that it has started use: steadier than the clock on a busy machine."""

import os
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


class CoreSeconds:
    """Counts user and system time of this process and its descendants (Linux only)."""

    def __init__(self) -> None:
        self.total = 0.0
        self._last = _used(os.getpid())

    def read(self) -> float:
        """All that was used since the start, but for the last moments of processes that have ended."""
        now = _used(os.getpid())
        self.total += sum(ticks - self._last.get(pid, 0) for pid, ticks in now.items()) / TICKS
        self._last = now
        return self.total


def _used(top: int) -> dict[int, int]:
    parents, used = {}, {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "stat").read_text()
        except OSError:  # it has ended meanwhile
            continue
        fields = text[text.rindex(")") + 2 :].split()
        parents[int(entry.name)] = int(fields[1])
        used[int(entry.name)] = int(fields[11]) + int(fields[12])
    return {pid: ticks for pid, ticks in used.items() if _descends(pid, top, parents)}


def _descends(pid: int, top: int, parents: dict[int, int]) -> bool:
    while pid and pid != top:
        pid = parents.get(pid, 0)
    return pid == top
