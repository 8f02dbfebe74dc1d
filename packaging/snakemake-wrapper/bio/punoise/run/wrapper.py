__author__ = "The punoise developers"
__copyright__ = "Copyright 2026, The punoise developers"
__license__ = "MIT"

import shutil
import tempfile
from pathlib import Path

from snakemake.shell import shell

SUFFIXES = {
    "prior": ".json",
    "scores": None,
    "posterior": None,
    "model": ".punoise",
    "report": ".html",
    "candidates": ".tsv",
    "labels_to_check": ".tsv",
    "columns": ".tsv",
    "provenance": ".json",
    "psms": ".tsv",
    "peptides": ".tsv",
}

extra = snakemake.params.get("extra", "")
log = snakemake.log_fmt_shell(stdout=True, stderr=True)

unknown = set(snakemake.output.keys()) - set(SUFFIXES)
if unknown or not snakemake.output.keys():
    raise ValueError(f"Outputs must have these names: {', '.join(SUFFIXES)}")

tables = [snakemake.output.get(name) for name in ("scores", "posterior")]
formats = {Path(table).suffix.lstrip(".") for table in tables if table}
if len(formats) > 1:
    raise ValueError("scores and posterior need the same format")
form = formats.pop() if formats else "parquet"

if snakemake.input.get("table"):
    rows = "--table {snakemake.input.table:q}"
    column = snakemake.params.get("label_column", "")
    rows += " --label-column {column:q}" if column else ""
else:
    rows = "--labeled {snakemake.input.labeled:q} --unlabeled {snakemake.input.unlabeled:q}"
    if snakemake.input.get("negatives"):
        rows += " --negatives {snakemake.input.negatives:q}"

with tempfile.TemporaryDirectory() as folder:
    shell(
        "(punoise run " + rows + " --out-dir {folder:q} --format {form}"
        " --threads {snakemake.threads} {extra}) {log}"
    )
    for name, suffix in SUFFIXES.items():
        if name in snakemake.output.keys():
            shutil.move(f"{folder}/{name}{suffix or '.' + form}", snakemake.output[name])
