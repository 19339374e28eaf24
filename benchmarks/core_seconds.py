"""What a process and all that it has started use: memory, and seconds of a core, which a busy machine changes less."""

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


def python_bytes() -> int:
    """Memory of the Python processes that this one has started, each page divided among those that share it."""
    total = 0
    for pid in _used(os.getpid()):
        try:
            if b"pyspark" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0", 3)[2]:
                lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
                total += 1024 * next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        except (OSError, IndexError, StopIteration):  # it has ended meanwhile, or is no Python
            continue
    return total


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
