"""Small tables whose columns are the fields of a Struct."""

import math

import msgspec
import pytest

from pu_noise_cli.errors import InputError
from pu_noise_cli.tables.reading import open_table
from pu_noise_cli.tables.records import as_batch, read_records
from pu_noise_cli.tables.writing import write_table


class Row(msgspec.Struct):
    name: str
    number: float | None
    count: int | None


@pytest.mark.parametrize("name", ["t.tsv", "t.csv", "t.parquet"])
def test_records_are_what_was_written(name, tmp_path):
    rows = [Row("a", 0.1, 3), Row("", None, None), Row("7", -math.inf, 0), Row("ä", 1e-300, -1)]
    write_table(str(tmp_path / name), as_batch(rows, Row))
    table = open_table(str(tmp_path / name))
    assert table.columns == ("name", "number", "count")
    assert read_records(table, Row, "t", 4) == rows
    with pytest.raises(InputError, match="3"):
        read_records(table, Row, "t", 3)


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("a,x,1", "row 2: column 'number'"),
        ("a,NA,1", "row 2: column 'number'"),
        ("a,1,1.5", "count"),
        ("a,1,inf", "count"),
    ],
)
def test_errors_name_the_row_and_the_column(line, place, tmp_path):
    (tmp_path / "t.csv").write_text(f"name,number,count\nb,1,2.0\n{line}\n")
    with pytest.raises(InputError, match=place):
        read_records(open_table(str(tmp_path / "t.csv")), Row, "t")


def test_a_missing_column_is_named(tmp_path):
    (tmp_path / "t.csv").write_text("name,count\nb,1\n")
    with pytest.raises(InputError, match="number"):
        read_records(open_table(str(tmp_path / "t.csv")), Row, "t")
