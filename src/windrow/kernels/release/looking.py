"""What a look for matches, which changes nothing, has to know of a join that releases (see engine/stages.py)."""

from windrow.kernels.release.hooks import hides, pair_memory, visible

__all__ = ["hides", "pair_memory", "visible"]
