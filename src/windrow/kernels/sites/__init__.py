"""Kernels of sites: beside the stream join."""
