"""Codes for missing values: those that nobody named, and those that --na names."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest


def test_a_code_in_a_feature_is_told_by_every_command(punoise, frames, tmp_path):
    options = []
    for frame, name in zip(frames, ("labeled", "unlabeled"), strict=True):
        frame = frame.assign(b=frame["b"].where(np.arange(len(frame)) % 9 > 0, -99))
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        options += [f"--{name}", tmp_path / f"{name}.csv"]
    options += ["--classifier", "logistic"]
    said = "'b' the value -99"
    result = punoise("transform", *options, "--out", tmp_path / "scores.parquet")
    assert said in result.err
    assert "[lone-value]" in result.err
    for source in (options, ["--scores", tmp_path / "scores.parquet"]):
        warnings = punoise("estimate-prior", *source).prior["warnings"]
        assert [w["code"] for w in warnings if said in w["message"]] == ["lone-value"]
    named = punoise("estimate-prior", *options, "--na", "-99").prior["warnings"]
    assert "lone-value" not in [w["code"] for w in named]


@pytest.mark.parametrize("kind", ["float32", "float16", "decimal"])
def test_na_is_compared_as_the_file_has_it(kind, punoise, frames, tmp_path):
    """-9.9 is another number in single precision; still no value of it is left."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {"float32": pa.float32(), "float16": pa.float16(), "decimal": pa.decimal128(9, 3)}
    options = []
    for frame, name in zip(frames, ("labeled", "unlabeled"), strict=True):
        column = frame["b"].round(2).where(np.arange(len(frame)) % 9 > 0, -9.9)
        values = np.asarray(column, np.float16) if kind == "float16" else column
        table = pa.table({"a": frame["a"], "b": pa.array(values).cast(kinds[kind])})
        pq.write_table(table, tmp_path / f"{name}.parquet")
        options += [f"--{name}", tmp_path / f"{name}.parquet"]
    out = ["--classifier", "logistic", "--out", tmp_path / "s.tsv"]
    assert punoise("transform", *options, "--na", "-9.9", *out).err.count("warning") == 0
    assert "na-not-found" in punoise("transform", *options, "--na", "-9.8", *out).err


def test_na_is_compared_as_a_number_in_categories_too(punoise, frames, tmp_path):
    codes, quick = {}, ("--classifier", "logistic")
    for missing in ("-1.0", ""):
        options = []
        for frame, name in zip(frames, ("labeled", "unlabeled"), strict=True):
            kind = np.resize([missing, "x", "y", "7"], len(frame))
            frame.assign(kind=kind).to_csv(tmp_path / f"{name}.csv", index=False)
            options += [f"--{name}", tmp_path / f"{name}.csv"]
        out = tmp_path / "s.tsv"
        punoise("transform", *options, "--na", "-1", "--categorical", "kind", *quick, "--out", out)
        codes[missing] = pd.read_csv(out, sep="\t")["score"]
    np.testing.assert_array_equal(codes["-1.0"], codes[""])
