"""Garbage is looked for rarely while kernels are compiled.

A compiler makes objects by the million and keeps most of them until it is done: Python looks for garbage among them
again and again, finds next to none, and spends a sixth of the time on it.
"""

import gc

# Objects that are made between two looks; looks at the young ones between two at the older, and at the oldest.
RARELY = (100_000, 50, 100)


class Garbage:
    """How often garbage is looked for, now and when nothing is being compiled."""

    def __init__(self) -> None:
        self._depth = 0
        self._usual: tuple[int, int, int] | None = None

    def began(self) -> None:
        """A function is being compiled; functions that it calls may follow inside."""
        self._depth += 1
        usual = gc.get_threshold()
        if self._depth == 1 and 0 < usual[0] < RARELY[0]:  # 0: whoever runs this process looks for none
            self._usual = usual
            gc.set_threshold(*RARELY)

    def ended(self) -> None:
        """The function is there."""
        self._depth -= 1
        if self._depth == 0 and self._usual is not None:
            if gc.get_threshold()[:2] == RARELY[:2]:  # nobody has said otherwise; from 3.14 on the third is always 0
                gc.set_threshold(*self._usual)
            self._usual = None


GARBAGE = Garbage()
