"""What was possible: the offline optimum, certified bounds, static truncated joins."""

from windrow.offline.optimum import Optimum, optimum, optimum_of

__all__ = ["Optimum", "optimum", "optimum_of"]
