"""Kernels of the optimum, and of truncated joins of finite relations."""
