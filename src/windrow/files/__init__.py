"""Files: Parquet, CSV and JSON lines in and out, as Arrow tables or as batches in file order.

The name decides the format: `.parquet` or `.pq` (also a directory of such files), `.csv`, `.tsv`, and
`.jsonl`, `.ndjson` or `.json` with one object per line; the text formats also with `.gz`. Whatever is wrong
with a file is an `InputError` of one line that names it.
"""

from windrow.files.reader import open_table
from windrow.files.source import Source
from windrow.files.writer import Writer, open_writer

__all__ = ["Source", "Writer", "open_table", "open_writer"]
