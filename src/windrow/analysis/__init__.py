"""What a stream is like: popularity, locality, gaps, ages; and which policy that calls for."""

from windrow.analysis.analysis import Analysis, analyse

__all__ = ["Analysis", "analyse"]
