"""Real files are ugly: what is read in spite of it, and what is refused with the place named."""

import gzip
import struct
import zlib

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pu_noise_cli.errors import PunoiseError
from pu_noise_cli.tables.columns import Profiler
from pu_noise_cli.tables.files import Format, read_json
from pu_noise_cli.tables.reading import open_table
from pu_noise_cli.tables.rows import Rows
from pu_noise_cli.tables.writing import (
    check_table_target,
    table_writer,
    write_atomically,
    write_json,
)


def read(path, **roles) -> tuple[list[str], np.ndarray, list[str]]:
    """The matrix column names, the matrix and the ids of one table."""
    options = {key: roles.pop(key) for key in ("na", "categorical") if key in roles}
    rows = Rows.from_tables([open_table(str(path))], **roles)
    profiler = Profiler(rows, options.get("na", ()), options.get("categorical", ()))
    chunks = list(rows.chunks([*rows.features, *rows.carried]))
    for chunk in chunks:
        profiler.add(chunk)
    profiler.finish(rows)
    encoding, _ = profiler.encoding()
    matrix = np.concatenate([encoding.encode(chunk) for chunk in chunks])
    ids = [value for chunk in chunks for value in rows.ids(chunk).to_pylist()]
    return encoding.feature_names, matrix, ids


NAN = float("nan")
GAP = [[1, NAN, 1], [3, 4, 0]]
UGLY = {
    "byte order mark": (b"\xef\xbb\xbfa,b\n1,2\n", ["a", "b"], [[1, 2]]),
    "windows line ends": (b"a,b\r\n1,2\r\n3,4\r\n", ["a", "b"], [[1, 2], [3, 4]]),
    "no newline at the end": (b"a,b\n1,2", ["a", "b"], [[1, 2]]),
    "quoted newline": (b'a,b\n1,"2\n"\n', ["a", "b"], [[1, 2]]),
    "quoted newline in the header": (b'"a\nx",b\n1,2\n', ["a\nx", "b"], [[1, 2]]),
    "trailing comma": (b"a,b,\n1,2,\n", ["a", "b"], [[1, 2]]),
    "trailing commas": (b"a,b,,,\n1,2,,,\n", ["a", "b"], [[1, 2]]),
    "trailing comma in the rows only": (b"a,b\n1,2,\n3,4,\n", ["a", "b"], [[1, 2], [3, 4]]),
    "trailing comma in the header only": (b"a,b,\n1,2\n", ["a", "b"], [[1, 2]]),
    "spaces": (b"a, b\n1, 2\n 3 ,4\n", ["a", "b"], [[1, 2], [3, 4]]),
    "signs and exponents": (b"a,b\n+1,-2e-3\n.5,3.\n", ["a", "b"], [[1, -0.002], [0.5, 3]]),
    "blank lines": (b"a,b\n\n1,2\n\n3,4\n\n", ["a", "b"], [[1, 2], [3, 4]]),
    "one column, blank lines at the end": (b"a\n1\n2\n\n\n", ["a"], [[1], [2]]),
    "one column, a gap": (b"a\n1\n\n2\n", ["a", "a (missing)"], [[1, 0], [NAN, 1], [2, 0]]),
    "comment lines": (b"# made by x\n# on a day\na,b\n1,2\n", ["a", "b"], [[1, 2]]),
    "header as a comment": (b"##v=4\n#a,b\n1,2\n3,4\n", ["a", "b"], [[1, 2], [3, 4]]),
    "one column, header as a comment": (b"#a\n1\n2\n", ["a"], [[1], [2]]),
    "truth values": (b"a,b\nTrue,1\nfalse,2\n", ["a", "b"], [[1, 1], [0, 2]]),
    "header as a comment, then a gap": (b"#a,b\n1,.\n3,4\n", ["a", "b", "b (missing)"], GAP),
    "the header of bcftools": (b"##x\n# [1]a,[2]b\n1,2\n", ["a", "b"], [[1, 2]]),
    "that of a later bcftools": (b"#[1]a,[2]b[3]\n1,2\n", ["a", "b[3]"], [[1, 2]]),
    "a comment as wide as the table": (b"# x, y\na,b\n1,2\n", ["a", "b"], [[1, 2]]),
    "a long comment": (b"#" + b"x" * 3_000_000 + b"\na,b\n1,2\n", ["a", "b"], [[1, 2]]),
}


@pytest.mark.parametrize("case", UGLY)
def test_ugly_text_is_read(case, tmp_path):
    content, names, values = UGLY[case]
    (tmp_path / "t.csv").write_bytes(content)
    found, matrix, _ = read(tmp_path / "t.csv")
    assert found == names
    np.testing.assert_array_equal(matrix, values)


@pytest.mark.parametrize("text", ["NA", "N/A", ".", "nan", "NaN", "", "null", " NA ", "?"])
def test_missing_values_become_an_indicator(text, tmp_path):
    values = ["1.5"] * 30 + [text]
    (tmp_path / "t.csv").write_text("a,b\n" + "".join(f"{v},1\n" for v in values))
    names, matrix, _ = read(tmp_path / "t.csv", na=["?"])
    assert names == ["a", "a (missing)", "b"]
    np.testing.assert_array_equal(matrix[-1], [NAN, 1, 1])
    np.testing.assert_array_equal(matrix[0], [1.5, 0, 1])


def test_ids_stay_text(tmp_path):
    (tmp_path / "t.csv").write_text("id,a\n007,1\n1e5,2\nNA,3\n,4\n")
    _, _, ids = read(tmp_path / "t.csv", id_columns=["id"])
    assert ids == ["007", "1e5", "NA", ""]


def test_without_an_id_column_rows_are_numbered_from_0(tmp_path):
    (tmp_path / "t.csv").write_text("a\n1\n2\n")
    assert read(tmp_path / "t.csv")[2] == ["0", "1"]


def test_rare_categories_are_pooled(tmp_path):
    values = ["x"] * 20 + ["y"] * 15 + ["z"] * 2 + ["NA"]
    (tmp_path / "t.csv").write_text("a\n" + "\n".join(values) + "\n")
    names, matrix, _ = read(tmp_path / "t.csv")
    assert names == ["a=x", "a=y", "a (other)", "a (missing)"]
    np.testing.assert_array_equal(matrix.sum(0), [20, 15, 2, 1])
    assert (matrix.sum(1) == 1).all()


def test_numbers_can_be_read_as_categories(tmp_path):
    (tmp_path / "t.csv").write_text("a\n" + "1\n" * 20 + "2\n" * 20)
    assert read(tmp_path / "t.csv", categorical=["a"])[0] == ["a=1", "a=2"]


PARQUET = {
    "float16": pa.array(np.array([1.5, 2], np.float16)),
    "uint64": pa.array([1, 2], pa.uint64()),
    "nullable integer": pa.array([1, None], pa.int64()),
    "decimal": pa.array([1, 2], pa.int64()).cast(pa.decimal128(22, 2)),
    "boolean": pa.array([True, False]),
    "integers as text": pa.array(["1", "2"]),
    "large text": pa.array(["1", "2"], pa.large_string()),
    "text views": pa.array(["1", "2"], pa.string_view()),
    "dictionary": pa.array(["1", "2"]).dictionary_encode(),
    "all missing": pa.array([None, None], pa.float64()),
    "no type": pa.nulls(2),
}


@pytest.mark.parametrize("case", PARQUET)
def test_parquet_types_are_read(case, tmp_path):
    pq.write_table(pa.table({"a": PARQUET[case], "b": [1.0, 2.0]}), tmp_path / "t.parquet")
    names, matrix, _ = read(tmp_path / "t.parquet")
    expected = [NAN if v is None else float(v) for v in PARQUET[case].to_pylist()]
    np.testing.assert_array_equal(matrix[:, 0], expected)
    assert names[0] == "a"


def test_the_index_of_pandas_is_no_column(tmp_path):
    pd.DataFrame({"a": [1.0, 2.0]}, index=[7, 3]).to_parquet(tmp_path / "t.parquet")
    assert open_table(str(tmp_path / "t.parquet")).columns == ("a",)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "tab", "txt", "csv.gz", "tsv.zst", "parquet"])
def test_every_format_reads_back(suffix, tmp_path):
    batch = pa.RecordBatch.from_pydict({"a": [0.1, 1 / 3, 1e-300], "b": ["x", 'y",\t"', "z\nw"]})
    name = str(tmp_path / f"t.{suffix}")
    with table_writer(name, batch.schema) as write:
        write(batch)
    ((found, _, _),) = open_table(name).batches(["a", "b"])
    assert found["b"].to_pylist() == batch["b"].to_pylist()
    assert [float(v) for v in found["a"].to_pylist()] == batch["a"].to_pylist()


@pytest.mark.parametrize("target", ["{}/shards", "{}/shards/part-*.csv"])
def test_shards_are_one_table_in_the_order_of_their_names(target, tmp_path):
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "_SUCCESS").write_text("")
    (tmp_path / "shards" / "part-1.csv").write_text("b,a\n3,1\n")
    (tmp_path / "shards" / "part-0.csv").write_text("a,b\n0,2\n")
    _, matrix, _ = read(target.format(tmp_path))
    np.testing.assert_array_equal(matrix, [[0, 2], [1, 3]])


def test_directories_in_a_directory_are_refused(tmp_path):
    (tmp_path / "shards" / "year=2024").mkdir(parents=True)
    (tmp_path / "shards" / "part.csv").write_text("a\n1\n")
    with pytest.raises(PunoiseError, match="'year=2024'"):
        open_table(str(tmp_path / "shards"))


def test_an_error_names_the_shard_and_the_row_in_it(tmp_path):
    (tmp_path / "p0.csv").write_text("a\n" + "1\n" * 30)
    (tmp_path / "p1.csv").write_text("a\n1\noops\n")
    with pytest.raises(PunoiseError, match=r"p1\.csv: column 'a' .*'oops' in row 2"):
        read(f"{tmp_path}/p*.csv")


@pytest.mark.parametrize("numbers_first", [True, False])
def test_a_column_of_numbers_and_text_is_a_category_in_any_order(numbers_first, tmp_path):
    rows = [str(i % 3) for i in range(60_000)], ["x"] * 300_000
    values = [v for part in (rows if numbers_first else rows[::-1]) for v in part]
    (tmp_path / "t.csv").write_text("a\n" + "\n".join(values) + "\n")
    pq.write_table(pa.table({"a": values}), tmp_path / "t.parquet")
    for suffix in ("csv", "parquet"):
        names, matrix, _ = read(tmp_path / f"t.{suffix}")
        assert names == ["a=0", "a=1", "a=2", "a=x"]
        assert matrix.sum(0).tolist() == [20000, 20000, 20000, 300_000]


def test_json_is_compressed_by_its_name_and_text_is_left_alone(tmp_path):
    value = {"sample": "[ 1,   2 ]", "odd": "\udcff", "list": [1.5, 2], "rows": [{"a": []}]}
    write_json(str(tmp_path / "x.json.gz"), value)
    text = gzip.decompress((tmp_path / "x.json.gz").read_bytes())
    assert text.startswith(b'{\n  "sample": "[ 1,   2 ]"')
    assert read_json(str(tmp_path / "x.json.gz")) == value


def bgzip(content: bytes, block: int = 1 << 16) -> bytes:
    """What bgzip writes: gzip members that say how long they are, the last one empty."""
    blocks = [content[i : i + block] for i in range(0, len(content), block)]
    found = b""
    for part in [*blocks, b""]:
        squeezer = zlib.compressobj(wbits=-15)
        body = squeezer.compress(part) + squeezer.flush()
        extra = struct.pack("<BBHH", 66, 67, 2, len(body) + 25)
        head = struct.pack("<4BI2BH", 31, 139, 8, 4, 0, 0, 255, len(extra))
        found += head + extra + body + struct.pack("<II", zlib.crc32(part), len(part))
    return found


@pytest.mark.parametrize("name", ["t.csv.bgz", "t.CSV.BGZ", "t.csv.gz"])
def test_blocks_of_bgzip_are_one_file(name, tmp_path):
    values = np.arange(400_000).reshape(-1, 2)  # many blocks, and more than is read at a time
    (tmp_path / name).write_bytes(bgzip(b"a,b\n" + b"".join(b"%d,%d\n" % (*v,) for v in values)))
    np.testing.assert_array_equal(read(tmp_path / name)[1], values)


def test_half_a_file_of_bgzip_is_refused(tmp_path):
    (tmp_path / "t.csv.bgz").write_bytes(bgzip(b"a,b\n" + b"1,2\n" * 100_000)[:-40])
    with pytest.raises(PunoiseError, match=r"t\.csv\.bgz: "):
        read(tmp_path / "t.csv.bgz")


def test_bgz_is_not_written(tmp_path):
    with pytest.raises(PunoiseError, match="not written"):
        check_table_target(str(tmp_path / "t.tsv.bgz"))


@pytest.mark.parametrize(
    "content", [b"a,b\n1,2\n", b"# a, b\n\na\tb\n1\t2\n", b"##x,y\n#a\tb\n1\t2\n"]
)
@pytest.mark.parametrize("name", ["t.txt", "t.txt.gz"])
def test_the_first_row_of_a_text_file_says_what_separates_values(content, name, tmp_path):
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    names, matrix, _ = read(tmp_path / name)
    assert names == ["a", "b"]
    np.testing.assert_array_equal(matrix, [[1, 2]])


def test_the_format_of_any_name_can_be_said(punoise, tmp_path):
    simulate = ["--n-labeled", "50", "--n-unlabeled", "60", "--n-features", "1"]
    punoise("simulate", "--out-dir", tmp_path, *simulate)
    plain = ["estimate-prior", "--labeled", tmp_path / "labeled.csv", "--unlabeled"]
    expected = punoise(*plain, tmp_path / "unlabeled.csv").out
    (tmp_path / "unlabeled.csv").rename(tmp_path / "unlabeled.dat")
    refused = punoise(*plain, tmp_path / "unlabeled.dat", expect=2)
    assert "--input-format" in refused.err
    assert punoise(*plain, tmp_path / "unlabeled.dat", "--input-format", "csv").out == expected
    wrong = punoise(*plain, tmp_path / "unlabeled.dat", "--input-format", "parquet", expect=3)
    assert "labeled.csv: " in wrong.err


def test_tab_is_tsv(tmp_path):
    assert Format.from_name("t.tab.gz") == Format("tsv", "gzip")


def test_compressed_output_is_reproducible(tmp_path):
    batch = pa.RecordBatch.from_pydict({"a": list(range(1000))})
    for name in ("one.csv.gz", "two.csv.gz"):
        with table_writer(str(tmp_path / name), batch.schema) as write:
            write(batch)
    assert (tmp_path / "one.csv.gz").read_bytes() == (tmp_path / "two.csv.gz").read_bytes()


@pytest.mark.parametrize("name", ["t.dat", "t", "t.parquet.gz", "t.docx", "t.csv.bz2", "t.bgz"])
def test_unknown_formats_are_refused(name):
    with pytest.raises(PunoiseError, match="format"):
        Format.from_name(name)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "t.csv"
    target.write_text("old")

    def fail() -> None:
        with write_atomically(str(target)) as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_a_link_is_written_through(tmp_path):
    (tmp_path / "link.json").symlink_to(tmp_path / "file.json")
    write_json(str(tmp_path / "link.json"), [1, 2])
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "file.json").read_text() == "[1, 2]\n"


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.text(st.characters(codec="utf-8")), min_size=20, max_size=40),
    st.sampled_from(["csv", "tsv", "csv.gz", "parquet"]),
)
def test_any_ids_survive_a_round_trip(tmp_path, ids, suffix):
    name = str(tmp_path / f"t.{suffix}")
    batch = pa.RecordBatch.from_pydict({"id": ids, "a": [1.0] * len(ids)})
    with table_writer(name, batch.schema) as write:
        write(batch)
    assert read(name, id_columns=["id"])[2] == ids


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--score-column", "REVEL"], "'REVEL'"),
        (["--labeled-value", "pathogenic"], "'P' (30), 'B' (30)"),
        ([], "--labeled-value"),
    ],
)
def test_errors_name_the_option_that_helps(options, said, punoise, tmp_path):
    path = tmp_path / "variants.csv"
    path.write_text("known,score\n" + "P,1\nB,0\n" * 30)
    command = ("estimate-prior", "--table", path, "--label-column", "known", *options)
    assert said in punoise(*command, expect=3).err
