"""Kernels: all numba code of windrow, module-level functions with an on-disk cache, and nothing else."""
