"""Kernels of measures: what streams are like, and how far results lie apart."""
