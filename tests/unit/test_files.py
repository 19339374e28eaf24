"""Files: every format gives back what was written, whole and in batches; a wrong one gives one clear line.

They catch rows out of file order, batches that differ from the whole, times that lose their zone, an empty
file that is an error, a half-written output, and an input that is overwritten.
"""

from __future__ import annotations

import gzip
import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow import files
from windrow.errors import DuplicateColumn, InputError, SpecError, UnknownColumn
from windrow.files import open_table, open_writer, text
from windrow.files.json_lines import json_lines

ENDINGS = [".parquet", ".pq", ".csv", ".csv.gz", ".tsv", ".tsv.gz", ".jsonl", ".jsonl.gz", ".ndjson", ".json"]
TEXT_ENDINGS = [ending for ending in ENDINGS if ending not in (".parquet", ".pq")]

TABLE = pa.table(
    {
        "k": pa.array([3, None, 1], pa.int64()),
        "x": pa.array([1.5, -0.25, None]),
        "s": ['tab\t, comma "quote"\nnew line', "", None],
        "b": [True, False, None],
        "t": pa.array([0, 1_700_000_000_123_456, None], pa.timestamp("us")),
        "z": pa.array([0, 1_700_000_000_123_456, None], pa.timestamp("us", "UTC")),
    }
)


def save(path: Path, content: str | bytes) -> Path:
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def write(path: Path, *tables: pa.Table) -> Path:
    with open_writer(path, tables[0].schema) as writer:
        for table in tables:
            writer.write(table)
    assert writer.rows == sum(table.num_rows for table in tables)
    return path


def small_blocks(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(text, "GUESS_BYTES", size)
    monkeypatch.setattr(text, "BLOCK_BYTES", size)


def joined(batches: list[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches(batches)


# --------------------------------------------------------------------------------------- there and back


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_is_written_is_read(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"rows{ending}", TABLE.slice(0, 1), TABLE.slice(1))
    source = open_table(path)
    assert source.table() == TABLE
    assert source.schema == TABLE.schema
    assert joined(list(source.batches(2))) == TABLE
    assert [batch.num_rows for batch in source.batches(2)] == [2, 1]
    assert [path.name for path in tmp_path.iterdir()] == [f"rows{ending}"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_projection_in_the_order_asked_for(tmp_path: Path, ending: str) -> None:
    source = open_table(write(tmp_path / f"rows{ending}", TABLE))
    assert source.table(["t", "k"]) == TABLE.select(["t", "k"])
    assert joined(list(source.batches(1, ["t", "k"]))) == TABLE.select(["t", "k"])
    for read in (lambda: source.table(["kk"]), lambda: source.batches(1, ["kk"])):
        with pytest.raises(UnknownColumn, match=r"rows\S+ has no column 'kk'; did you mean 'k'\?"):
            read()


@pytest.mark.parametrize("ending", [".parquet", ".csv", ".jsonl"])
@pytest.mark.parametrize("rows", [1, 7, 999, 5_000, 100_000])
def test_batches_have_the_size_asked_for_in_file_order(
    tmp_path: Path, ending: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_blocks(monkeypatch, 4_096)
    monkeypatch.setattr(files.writer, "ROW_GROUP_ROWS", 700)  # many row groups
    numbers = pa.table({"n": np.arange(5_000)})
    source = open_table(write(tmp_path / f"n{ending}", *(numbers.slice(i, 50) for i in range(0, 5_000, 50))))
    batches = list(source.batches(rows))
    assert joined(batches) == numbers
    assert [batch.num_rows for batch in batches[:-1]] == [rows] * ((5_000 - 1) // rows)


@pytest.mark.parametrize("ending", [".parquet", ".csv", ".jsonl"])
def test_batches_hold_only_a_part_of_the_file(tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    small_blocks(monkeypatch, 16_384)
    monkeypatch.setattr(files.writer, "ROW_GROUP_ROWS", 5_000)
    numbers = pa.table({"n": np.random.default_rng(1).integers(0, 2**62, 500_000)})
    path = write(tmp_path / f"n{ending}", numbers)
    before, peak = pa.total_allocated_bytes(), 0
    for _ in open_table(path).batches(5_000):
        peak = max(peak, pa.total_allocated_bytes() - before)
    assert peak < path.stat().st_size / 3  # at most about 40 blocks of text, or two row groups


def test_row_count_is_known_for_parquet_only(tmp_path: Path) -> None:
    assert open_table(write(tmp_path / "a.parquet", TABLE)).rows == 3
    assert open_table(write(tmp_path / "a.csv", TABLE)).rows is None
    assert open_table(write(tmp_path / "a.jsonl", TABLE)).rows is None
    assert open_table(save(tmp_path / "none.csv", "")).rows == 0


def test_small_writes_share_a_row_group(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", *(TABLE for _ in range(100)))
    assert pq.ParquetFile(path).metadata.num_row_groups == 1


# ------------------------------------------------------------------------------------------ empty files


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_of_no_bytes_is_an_empty_result(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"rows{ending}"
    path.write_bytes(b"")
    source = open_table(path)
    assert len(source.schema) == 0
    assert source.table().shape == (0, 0)
    hint = pa.schema({"k": pa.int64(), "t": pa.timestamp("us")})
    assert source.table(columns_hint=hint) == hint.empty_table()
    assert source.table(["t", "v"], hint).schema == pa.schema({"t": pa.timestamp("us"), "v": pa.string()})
    (batch,) = source.batches(10, columns_hint=hint)
    assert batch.schema == hint
    assert batch.num_rows == 0


@pytest.mark.parametrize("ending", TEXT_ENDINGS)
@pytest.mark.parametrize("content", ["", "\n", "\ufeff", " \r\n\n"])
def test_a_text_file_without_text_is_an_empty_result(tmp_path: Path, ending: str, content: str) -> None:
    source = open_table(save(tmp_path / f"rows{ending}", content))
    assert source.table().shape == (0, 0)
    assert joined(list(source.batches(5))).shape == (0, 0)


@pytest.mark.parametrize("content", ["k,t", "k,t\n", "k,t\r\n", "\ufeffk,t\n"])
def test_a_header_alone_takes_its_types_from_the_hint(tmp_path: Path, content: str) -> None:
    source = open_table(save(tmp_path / "rows.csv", content))
    assert source.schema == pa.schema({"k": pa.null(), "t": pa.null()})
    assert source.table().schema == pa.schema({"k": pa.string(), "t": pa.string()})
    hint = pa.schema({"t": pa.timestamp("us"), "other": pa.int64()})
    expected = pa.schema({"k": pa.string(), "t": pa.timestamp("us")})
    assert source.table(columns_hint=hint) == expected.empty_table()
    assert [batch.schema for batch in source.batches(5, columns_hint=hint)] == [expected]


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_empty_output_is_an_empty_input(tmp_path: Path, ending: str) -> None:
    source = open_table(write(tmp_path / f"rows{ending}", TABLE.slice(0, 0)))
    assert source.table(columns_hint=TABLE.schema) == TABLE.slice(0, 0)


def test_rows_without_columns(tmp_path: Path) -> None:
    source = open_table(save(tmp_path / "a.jsonl", "{}\n{}\n"))
    assert source.table(["k"]) == pa.table({"k": pa.array([], pa.string())})
    assert joined(list(source.batches(1, ["k"]))).num_rows == 0
    assert b"".join(json_lines(TABLE.select([]))) == b"{}\n" * 3


# ------------------------------------------------------------------------------------------- text types


def test_csv_types_are_guessed(tmp_path: Path) -> None:
    header = "i,f,s,d,seconds,micros,nanos,zone,offset,empty,na"
    line = (
        "1,2.5,x,2024-01-02,2024-01-02T03:04:05,2024-01-02 03:04:05.25,2024-01-02T03:04:05.123456789,"
        "2024-01-02T03:04:05Z,2024-01-02T03:04:05+02:00,,NA"
    )
    table = open_table(save(tmp_path / "a.csv", f"{header}\n{line}\n")).table()
    us, utc = pa.timestamp("us"), pa.timestamp("us", "UTC")
    assert table.schema.types == [
        *(pa.int64(), pa.float64(), pa.string(), pa.date32(), us, us, pa.timestamp("ns"), utc, utc),
        *(pa.string(), pa.string()),
    ]
    row = table.drop_columns("nanos").to_pylist()[0]
    assert row["d"] == date(2024, 1, 2)
    assert row["micros"] == datetime(2024, 1, 2, 3, 4, 5, 250_000)
    assert row["offset"] == datetime(2024, 1, 2, 1, 4, 5, tzinfo=UTC)
    assert (row["empty"], row["na"]) == (None, "NA")


@pytest.mark.parametrize("whole", [True, False])
def test_json_times_keep_their_zone(tmp_path: Path, whole: bool) -> None:
    rows = [
        {
            "a": "2024-01-02T03:04:05",
            "b": "2024-01-02T03:04:05Z",
            "c": "2024-01-02T03:04:05.5+01:00",
            "d": "x",
        },
        {"a": "2024-01-02T03:04:05.5", "b": None, "d": "2024-01-02"},
    ]
    source = open_table(save(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows))))
    table = source.table() if whole else joined(list(source.batches(1)))
    utc = pa.timestamp("us", "UTC")
    assert table.schema == pa.schema({"a": pa.timestamp("us"), "b": utc, "c": utc, "d": pa.string()})
    assert table["c"].to_pylist() == [datetime(2024, 1, 2, 2, 4, 5, 500_000, tzinfo=UTC), None]


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_given_types_come_first(tmp_path: Path, ending: str) -> None:
    table = pa.table({"code": [7, 8], "t": ["2024-01-02T03:04:05", "2024-01-02T03:04:06"]})
    path = write(tmp_path / f"a{ending}", table)
    source = open_table(path, types={"code": "string", "t": pa.string()})
    expected = pa.table({"code": ["7", "8"], "t": table["t"]})
    assert source.table() == expected
    assert joined(list(source.batches(1))) == expected
    assert source.schema == expected.schema
    assert open_table(path, {"code": "float64"}).table(["code"]) == pa.table({"code": [7.0, 8.0]})
    with pytest.raises(UnknownColumn, match="did you mean 'code'"):
        open_table(path, {"codes": "string"}).table()
    with pytest.raises(SpecError, match=r"types\['code'\] is 'text', which names no Arrow type"):
        open_table(path, {"code": "text"})


def test_leading_zeros_survive_as_text(tmp_path: Path) -> None:
    path = save(tmp_path / "a.csv", "code\n007\n")
    assert open_table(path).table()["code"].to_pylist() == [7]
    assert open_table(path, {"code": "string"}).table()["code"].to_pylist() == ["007"]


@pytest.mark.parametrize(("ending", "line"), [(".csv", "{}\n"), (".jsonl", '{{"a":{}}}\n')], ids=["csv", "jsonl"])
def test_a_late_surprise_is_read_whole_and_reported_in_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, line: str
) -> None:
    small_blocks(monkeypatch, 1_000)
    content = ("a\n" if ending == ".csv" else "") + line.format(1) * 1_000 + line.format(2.5)
    source = open_table(save(tmp_path / f"a{ending}", content))
    assert source.table()["a"].to_pylist() == [1.0] * 1_000 + [2.5]
    with pytest.raises(InputError, match=r"2\.5.*give this column's type"):
        list(source.batches(10))
    named = open_table(tmp_path / f"a{ending}", {"a": "float64"})
    assert joined(list(named.batches(10)))["a"].to_pylist()[-1] == 2.5


def test_quoted_lines_cross_block_borders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_blocks(monkeypatch, 1_000)
    table = pa.table({"s": [f"line {i}\nand more, {i}" for i in range(500)], "n": np.arange(500)})
    source = open_table(write(tmp_path / "a.csv", table))
    assert source.table() == table
    assert joined(list(source.batches(100))) == table


VALUES = {
    pa.string(): st.text(alphabet=st.characters(codec="utf-8"), max_size=8),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(),
    pa.timestamp("ns"): st.integers(-(2**62), 2**62),
    pa.decimal128(10, 2): st.decimals(-1000, 1000, places=2),
    pa.list_(pa.struct([("x", pa.string())])): st.lists(st.fixed_dictionaries({"x": st.none() | st.text(max_size=3)})),
    pa.dictionary(pa.int32(), pa.string()): st.sampled_from(["a", '"', ""]),
    pa.binary(): st.binary(max_size=4),
    pa.date32(): st.dates(),
}


@given(st.sampled_from(list(VALUES)).flatmap(lambda kind: st.tuples(st.just(kind), st.lists(st.none() | VALUES[kind]))))
def test_json_lines_are_what_json_reads(case: tuple[pa.DataType, list[Any]]) -> None:
    kind, values = case
    table = pa.table({'a"b': pa.array(values, kind), "n": pa.nulls(len(values))})
    lines = b"".join(json_lines(table)).decode().split("\n")
    assert lines.pop() == ""
    read = [json.loads(line) for line in lines]
    assert [list(row) for row in read] == [['a"b', "n"]] * len(values)
    got = [row['a"b'] for row in read]
    if pa.types.is_floating(kind):
        assert got == [value if value is not None and np.isfinite(value) else None for value in values]
    elif pa.types.is_decimal(kind):
        assert got == [None if value is None else float(value) for value in values]
    elif pa.types.is_timestamp(kind):
        back = pa.array([None if text is None else text for text in got], pa.string()).cast(kind)
        assert back == table.column(0).combine_chunks()
    elif kind in (pa.binary(), pa.date32()):
        assert [value is None for value in got] == [value is None for value in values]
    else:
        assert got == values


# ------------------------------------------------------------------------------------------ directories


def test_a_directory_is_read_in_the_order_of_its_paths(tmp_path: Path) -> None:
    for name, start in (("part-1.parquet", 10), ("part-0.parquet", 0), ("z/part-0.pq", 20)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"n": np.arange(start, start + 10)}), tmp_path / name, row_group_size=3)
    save(tmp_path / "_SUCCESS", "")
    save(tmp_path / ".part-9.parquet.tmp", "x")
    save(tmp_path / "_metadata.parquet", "x")
    save(tmp_path / "empty.parquet", "")
    source = open_table(tmp_path)
    assert source.table()["n"].to_pylist() == list(range(30))
    assert joined(list(source.batches(7)))["n"].to_pylist() == list(range(30))
    assert source.rows == 30


def test_files_of_a_directory_may_differ_and_be_partitioned(tmp_path: Path) -> None:
    for day, column in ((1, pa.array([1], pa.int32())), (2, pa.array([2**40], pa.int64()))):
        folder = tmp_path / f"day={day}"
        folder.mkdir()
        pq.write_table(pa.table({"n": column} | ({"late": ["x"]} if day == 2 else {})), folder / "a.parquet")
    source = open_table(tmp_path)
    expected = [{"n": 1, "late": None, "day": 1}, {"n": 2**40, "late": "x", "day": 2}]
    assert source.table().to_pylist() == expected
    assert joined(list(source.batches(1))).to_pylist() == expected
    assert joined(list(source.batches(1, ["day"]))).to_pylist() == [{"day": 1}, {"day": 2}]
    assert open_table(tmp_path / "day=1" / "a.parquet").schema.names == ["n"]


# ---------------------------------------------------------------------------------------------- errors


def message(path: Path) -> str:
    """The one line that a user sees when the file is read; whole or in batches, both must be such lines."""
    lines = []
    for read in (lambda: open_table(path).table(), lambda: list(open_table(path).batches(10))):
        with pytest.raises(InputError) as caught:
            read()
        lines.append(str(caught.value))
    assert all("\n" not in line and line.startswith(f"{path}: ") for line in lines), lines
    return lines[0].removeprefix(f"{path}: ")


def test_missing_and_unknown_files(tmp_path: Path) -> None:
    assert message(tmp_path / "none.csv") == "there is no such file"
    assert message(tmp_path / "none") == "there is no such file"
    assert "known endings are .parquet" in message(save(tmp_path / "a.xlsx", "x"))
    assert "known endings are .parquet" in message(save(tmp_path / "a.parquet.gz", "x"))
    assert message(tmp_path) == "this directory holds no Parquet files (*.parquet or *.pq)"


def test_content_that_is_not_what_the_name_says(tmp_path: Path) -> None:
    parquet = write(tmp_path / "good.parquet", TABLE).read_bytes()
    assert "arquet magic bytes not found" in message(save(tmp_path / "a.parquet", "k,t\n1,2\n" * 9))
    assert "reading failed" in message(save(tmp_path / "cut.parquet", parquet[:-20]))
    assert message(save(tmp_path / "a.csv", parquet)) == "this is a Parquet file; give it the ending .parquet"
    assert message(save(tmp_path / "b.csv", gzip.compress(b"k\n1\n"))).startswith("this is compressed with gzip")
    assert message(save(tmp_path / "c.csv", "k\n1\n".encode("utf-16"))).startswith("this is not UTF-8 text")
    assert message(save(tmp_path / "f.csv", "k\n1\n".encode("utf-16-le"))).startswith("this is not UTF-8 text")
    nul = message(save(tmp_path / "f.jsonl", '{"k": "a"}\n{"k": "a\0b"}\n'))
    assert nul == "line 2 has a NUL byte, which JSON does not know; write it as \\u0000"
    assert "column 's' is not UTF-8 text" in message(save(tmp_path / "d.csv", "s\nd\xe9j\xe0\n".encode("latin-1")))
    assert "Expected 2 columns, got 1: 3" in message(save(tmp_path / "e.csv", "k,t\n1,2\n3\n"))
    assert "it starts with '['" in message(save(tmp_path / "a.json", '[{"k": 1}]'))
    assert "in row 1" in message(save(tmp_path / "b.jsonl", '{"k": 1}\n{"k": }\n'))
    assert "changed from number to string" in message(save(tmp_path / "c.jsonl", '{"k": 1}\n{"k": "x"}\n'))
    (tmp_path / "g.csv.gz").write_bytes(b"k\n1\n")
    assert "reading failed" in message(tmp_path / "g.csv.gz")
    (tmp_path / "h.csv.gz").write_bytes(gzip.compress(b"k\n" + b"12345\n" * 100_000)[:-500])
    assert "reading failed" in message(tmp_path / "h.csv.gz")


def test_a_broken_file_in_a_directory(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", TABLE)
    save(tmp_path / "b.parquet", "no parquet")
    assert "b.parquet" in message(tmp_path)


def test_two_columns_of_one_name(tmp_path: Path) -> None:
    with pytest.raises(DuplicateColumn, match="two columns are named 'k'"):
        open_table(save(tmp_path / "a.csv", "k,k\n1,2\n")).table()
    with pytest.raises(DuplicateColumn, match="two columns are named 'k'"):
        open_writer(tmp_path / "b.csv", pa.schema([("k", pa.int64()), ("k", pa.int64())]))


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = save(tmp_path / "a.csv", "k\n1\n")
    monkeypatch.setattr(pa, "input_stream", denied)
    assert message(path) == "permission denied; reading is not allowed"


def test_batches_must_have_rows(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="rows must be at least 1"):
        open_table(write(tmp_path / "a.csv", TABLE)).batches(0)


# --------------------------------------------------------------------------------------------- writing


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_failed_output_leaves_nothing_behind(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"rows{ending}"
    with pytest.raises(RuntimeError, match="midway"), open_writer(path, TABLE.schema) as writer:
        writer.write(TABLE)
        raise RuntimeError("midway")
    assert list(tmp_path.iterdir()) == []
    before = save(path, "old").read_bytes()
    with pytest.raises(KeyboardInterrupt), open_writer(path, TABLE.schema) as writer:
        writer.write(TABLE)
        assert path.read_bytes() == before
        raise KeyboardInterrupt
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_an_existing_file_is_replaced_at_the_end(tmp_path: Path) -> None:
    path = save(tmp_path / "a.csv", "old\n")
    link = tmp_path / "link.csv"
    link.symlink_to(path)
    with open_writer(link, TABLE.schema) as writer:
        writer.write(TABLE.to_batches()[0])
        assert path.read_text() == "old\n"
    assert open_table(path).table() == TABLE
    assert link.is_symlink()


def test_an_input_is_never_overwritten(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", TABLE)
    (tmp_path / "link.csv").symlink_to(path)
    (tmp_path / "hard.csv").hardlink_to(path)
    for target in ("a.csv", "link.csv", "hard.csv", "../" + tmp_path.name + "/a.csv"):
        with pytest.raises(InputError, match="is an input too"):
            open_writer(tmp_path / target, TABLE.schema, inputs=[str(path)])
    with pytest.raises(InputError, match="lies in the input directory"):
        open_writer(tmp_path / "sub.parquet", TABLE.schema, inputs=[tmp_path])
    assert open_table(path).table() == TABLE


def test_targets_that_cannot_be_written_are_refused_at_once(tmp_path: Path) -> None:
    schema = pa.schema({"k": pa.list_(pa.int64())})
    with pytest.raises(InputError, match=r"column 'k' is list.* write \.parquet or \.jsonl"):
        open_writer(tmp_path / "a.csv", schema)
    with pytest.raises(InputError, match="does not exist; make it first"):
        open_writer(tmp_path / "none" / "a.csv", TABLE.schema)
    (tmp_path / "folder.parquet").mkdir()
    with pytest.raises(InputError, match="not a file that can be replaced"):
        open_writer(tmp_path / "folder.parquet", TABLE.schema)
    with pytest.raises(InputError, match="known endings"):
        open_writer(tmp_path / "a.txt", TABLE.schema)
    assert [path.name for path in tmp_path.iterdir()] == ["folder.parquet"]


def test_rows_must_fit_the_schema(tmp_path: Path) -> None:
    with open_writer(tmp_path / "a.csv", pa.schema({"a": pa.int64(), "b": pa.string()})) as writer:
        writer.write(pa.table({"b": ["x"], "a": pa.array([1], pa.int32())}))
        with pytest.raises(UnknownColumn, match="the table to write has no column 'b'"):
            writer.write(pa.table({"a": [1]}))
        with pytest.raises(InputError, match="writing failed"):
            writer.write(pa.table({"a": ["one"], "b": ["x"]}))
    assert open_table(tmp_path / "a.csv").table().to_pylist() == [{"a": 1, "b": "x"}]


def test_a_nul_byte_is_a_character_of_csv(tmp_path: Path) -> None:
    """It is UTF-8, and Arrow reads it; only text in which every other byte is one is something else."""
    table = open_table(save(tmp_path / "n.csv", 'k,s\n1,a\0b\n2,"\0"\n')).table()
    assert table.to_pylist() == [{"k": 1, "s": "a\0b"}, {"k": 2, "s": "\0"}]
