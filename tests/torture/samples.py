"""One good file of every kind that is read, to be damaged."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from child import punoise

PAIR = ("--labeled", "labeled.csv", "--unlabeled", "unlabeled.csv")
FAST = ("-q", "--threads", "1", "--classifier", "logistic")


def make(folder: Path) -> None:
    """Tables, scores, prior, posterior, sketch, models, thresholds and provenance."""
    rng = np.random.default_rng(0)
    for name, n, shift in (("labeled", 60, 1.5), ("unlabeled", 90, 0.5)):
        columns = {f"x{i}": rng.normal(shift, 1, n).round(4) for i in range(3)}
        table = pa.table(
            {
                "id": [f"{name[0]}{i}" for i in range(n)],
                **columns,
                "k": rng.choice(["red", "green", "blue"], n),
                "t": rng.random(n) < 0.5,
                "g": [f"g{i % 15}" for i in range(n)],
            }
        )
        pq.write_table(table, folder / f"{name}.parquet", write_page_checksum=True)
        lines = [",".join(table.schema.names)]
        lines += [",".join(str(value) for value in row.values()) for row in table.to_pylist()]
        text = "\n".join(lines) + "\n"
        (folder / f"{name}.csv").write_text(text)
        packed = gzip.compress(text.replace(",", "\t").encode(), mtime=0)
        (folder / f"{name}.tsv.gz").write_bytes(packed)
    (folder / "other.parquet").write_bytes((folder / "unlabeled.parquet").read_bytes())
    columns = ("--id-column", "id", "--drop-columns", "g")
    must(folder, "run", *FAST, *PAIR, *columns, "--out-dir", "run")
    for name in ("scores.parquet", "posterior.parquet", "prior.json", "provenance.json"):
        (folder / name).write_bytes((folder / "run" / name).read_bytes())
    scores = pq.read_table(folder / "scores.parquet").to_pylist()
    lines = ["id\tset\tscore", *("\t".join(map(str, row.values())) for row in scores)]
    (folder / "scores.tsv").write_text("\n".join(lines) + "\n")
    sketch = ("--out", "s.tsv", "--sketch", "all.sketch")
    must(folder, "transform", *FAST, *PAIR, *columns, *sketch)
    score = ("-q", "--score-column", "x0", "--id-column", "id")
    must(folder, "calibrate", *score, *PAIR, "--out-dir", "calibrated")
    for name in ("thresholds.tsv", "thresholds.json"):
        (folder / name).write_bytes((folder / "calibrated" / name).read_bytes())
    for kind in ("networks", "logistic"):
        more = ("-q", "--threads", "1", "--classifier", kind)
        must(folder, "train", *more, *PAIR, *columns, "--out", f"{kind}.model")
    groups = ("--id-column", "id", "--group-column", "g", "--max-train-rows", "100")
    must(folder, "train", *FAST, *PAIR, *groups, "--out", "groups.model")


def must(folder: Path, *args: str) -> None:
    ended = punoise(*args, folder=folder)
    assert ended.code == 0, (args, ended.err)
