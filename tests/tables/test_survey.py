"""The pass before training: what is learned of columns and files is the same in any parts."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

SIZES = (400, 1, 900, 250)  # rows of the unlabeled files
FAST = ("--classifier", "logistic", "--categorical", "kind", "--na", "-1")


def frame(n: int, seed: int) -> pd.DataFrame:
    """Columns of every kind: whole numbers, gaps, truth values, few, many and mixed levels."""
    rng = np.random.default_rng(seed)
    many = rng.zipf(1.3, n).clip(max=10**6)
    mixed = np.where(rng.random(n) < 0.5, rng.choice(["1", "2.5"], n), rng.choice(["a", "b"], n))
    return pd.DataFrame(
        {
            "x": rng.normal(size=n) + 2.0 * (seed == 0),  # labeled rows score higher
            "odd": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "kind": rng.choice(["red", "green", "blue", None], n),
            "flag": rng.choice(["true", "false"], n),
            "many": [f"level {i}" for i in many],
            "mixed": mixed,
        }
    )


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Labeled and negative rows, and unlabeled ones in several files and in one."""
    parts = [frame(n, i + 1) for i, n in enumerate(SIZES)]
    (tmp_path / "parts").mkdir()
    for i, part in enumerate(parts):
        part.to_parquet(tmp_path / "parts" / f"{i}.parquet", row_group_size=100)
    pd.concat(parts).to_parquet(tmp_path / "whole.parquet", index=False)
    frame(300, 0).to_parquet(tmp_path / "l.parquet")
    frame(60, 9).to_parquet(tmp_path / "n.parquet")
    return tmp_path


def options(folder: Path, unlabeled: str) -> list[object]:
    labeled = ["--labeled", folder / "l.parquet", "--negatives", folder / "n.parquet"]
    return [*labeled, "--unlabeled", folder / unlabeled, "--categorical", "mixed", *FAST]


@pytest.mark.parametrize(
    "rows", [100, *(pytest.param(n, marks=pytest.mark.ci) for n in (1000, 10_000))]
)
def test_parts_give_the_model_and_the_columns_of_the_whole(rows, tables, punoise):
    columns = []
    for unlabeled, more in (("whole.parquet", ()), ("parts", ()), ("parts", ("--shards",))):
        out = tables / f"{unlabeled}{len(more)}"
        sample = ("--max-train-rows", rows, "--threads", 1 + len(more))
        punoise("run", *options(tables, unlabeled), *sample, *more, "--out-dir", out)
        provenance = json.loads((out / "provenance.json").read_text())
        columns.append([{**c, "table": Path(c["table"]).stem} for c in provenance["columns"]])
        for name in ("model.punoise", "prior.json"):
            first = tables / "whole.parquet0" / name
            assert (out / name).read_bytes() == first.read_bytes(), (name, unlabeled)
    renamed = [{**c, "table": c["table"].replace("parts", "whole")} for c in columns[1]]
    assert renamed == columns[0]
    assert columns[1] == columns[2]
    (mixed,) = [c for c in columns[0] if (c["column"], c["table"]) == ("mixed", "whole")]
    assert (mixed["kind"], mixed["values"], mixed["levels"]) == ("category", sum(SIZES), 4)


def test_provenance_has_the_digest_of_every_file(tables, punoise):
    columns = frame(1, 0).columns
    pd.DataFrame(columns=columns, dtype=float).to_parquet(tables / "parts" / "none.parquet")
    punoise("run", *options(tables, "parts"), "--out-dir", tables / "out")
    provenance = json.loads((tables / "out" / "provenance.json").read_text())
    digests = {entry["file"]: entry["sha256"] for entry in provenance["inputs"]}
    files = [tables / "l.parquet", tables / "n.parquet", *(tables / "parts").iterdir()]
    assert digests == {str(f): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


@pytest.mark.ci
def test_more_levels_than_are_counted_are_the_same_in_parts(tables, punoise):
    """Of 70,000 levels those that come first in the table count, however it is cut."""
    rng = np.random.default_rng(0)
    rows = frame(90_000, 5).assign(many=[f"level {i}" for i in rng.integers(0, 200_000, 90_000)])
    assert rows["many"].nunique() > 1 << 16
    rows.to_parquet(tables / "whole.parquet", index=False)
    cuts = [0, 100, 50_000, 80_000, len(rows)]
    for i, start in enumerate(cuts[:-1]):
        rows[start : cuts[i + 1]].to_parquet(tables / "parts" / f"{i}.parquet", index=False)
    for unlabeled, more in (("whole.parquet", ()), ("parts", ("--shards",))):
        out = tables / f"out{len(more)}"
        punoise("run", *options(tables, unlabeled), *more, "--out-dir", out)
    for name in ("model.punoise", "prior.json"):
        assert (tables / "out0" / name).read_bytes() == (tables / "out1" / name).read_bytes()
