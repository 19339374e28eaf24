"""Static joins: two finite relations, of which only so many rows may travel, joined with the least loss.

    histograms (rows per key)  ->  choice (offline/truncation.py)  ->  requests  ->  truncated relations  ->  their join

Only histograms, requests and the rows asked for leave their place, and all are counted in bytes. The same choice serves
Arrow tables here and DataFrames on Spark, where histograms are made, and rows picked, by Spark.
"""

from windrow.static.many import TruncatedMany, truncate_many
from windrow.static.result import Bytes, Cut, Truncated
from windrow.static.truncate import truncate

__all__ = ["Bytes", "Cut", "Truncated", "TruncatedMany", "truncate", "truncate_many"]
