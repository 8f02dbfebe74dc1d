"""Files of this version that every later version must read with the same numbers.

It writes VERSION/ beside it, once for each release that changes a format. Folders of earlier
versions are never written again. READERS are the commands that read the files; what they answered
is stored in VERSION/answers/.
"""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from pu_noise_cli import __version__

FOLDER = Path(__file__).parent

TABLES = "--labeled labeled.csv --unlabeled unlabeled.csv --keep-columns gene"
RUN = "--scores run/scores.parquet --prior run/prior.json"
WRITERS = (
    f"calibrate {TABLES} --classifier logistic --out-dir run",
    f"posterior {RUN} --by gene --groups-out groups.parquet --out by_gene.parquet",
    f"transform {TABLES} --classifier logistic --sketch all.sketch --out scores.tsv",
    f"audit {RUN} --rows 30 --out audit.tsv",
    f"train {TABLES} --out networks.punoise",
    "matches search.pin --out-dir matches",
)
KEPT = (
    *("run/scores.parquet", "run/prior.json", "run/posterior.parquet", "run/model.punoise"),
    *("run/thresholds.json", "run/thresholds.tsv", "run/provenance.json", "networks.punoise"),
    *("groups.parquet", "all.sketch", "audit.tsv", "matches/model.punoise", "matches/psms.tsv"),
    *("matches/matches.json",),
)
SCORES, PRIOR = "--scores scores.parquet", "--prior prior.json"
PART, GROUPS = "--scores part.tsv", "--by gene --groups groups.parquet"
GRADE = "apply --table rows.tsv --score-column score"
READERS = {
    "model.tsv": "score --model model.punoise --table new.csv --out {}",
    "networks.tsv": "score --model networks.punoise --table new.csv --out {}",
    "prior.tsv": "summarize prior.json --out {}",
    "posterior.tsv": f"posterior {PART} {PRIOR} --model model.punoise --out {{}}",
    "sketch.tsv": f"posterior {PART} {PRIOR} --sketch all.sketch --out {{}}",
    "groups.tsv": f"posterior {PART} {PRIOR} {GROUPS} --sketch all.sketch --out {{}}",
    "sketch.json": "estimate-prior --sketch all.sketch --method elkan-noto --out {}",
    "scores.json": f"estimate-prior {SCORES} --method elkan-noto --out {{}}",
    "verdicts.json": f"estimate-prior {SCORES} --verdicts audit.tsv --out {{}}",
    "thresholds.tsv": f"{GRADE} --thresholds thresholds.tsv --out {{}}",
    "thresholds_json.tsv": f"{GRADE} --thresholds thresholds.json --out {{}}",
    "psms.tsv": "matches --model matches.model.punoise search.pin --out-dir {}",
}


def punoise(command: str, folder: Path) -> None:
    words = [sys.executable, "-m", "pu_noise_cli", *command.split(), "--quiet", "--threads", "1"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr}")


def answer(out: Path) -> Path:
    """The file that a reader wrote; of a directory, the one of the same name."""
    return out / out.name if out.is_dir() else out


def add_genes(path: Path, out: Path) -> None:
    header, *rows = path.read_text().splitlines()
    genes = [f"{row},g{i % 3}" for i, row in enumerate(rows)]
    out.write_text("\n".join([f"{header},gene", *genes]) + "\n")


def fill_in(path: Path) -> None:
    """Verdicts that alternate in a fixed way."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter="\t", lineterminator="\n")
        writer.writeheader()
        for i, row in enumerate(rows):
            writer.writerow({**row, "verdict": "yes" if i % 4 == 0 else "no"})


def write_corpus(target: Path, scratch: Path) -> None:
    sizes = "--n-labeled 150 --n-unlabeled 400 --n-features 4 --seed 5"
    punoise(f"simulate --out-dir sim {sizes}", scratch)
    for name in ("labeled", "unlabeled"):
        add_genes(scratch / "sim" / f"{name}.csv", scratch / f"{name}.csv")
    shutil.copy(FOLDER / "search.pin", scratch)
    for command in WRITERS:
        punoise(command, scratch)
    fill_in(scratch / "audit.tsv")
    target.mkdir()
    for name in KEPT:
        kept = name.removeprefix("run/").replace("/", ".")
        shutil.copy(scratch / name, target / kept)
    lines = (scratch / "unlabeled.csv").read_text().splitlines(keepends=True)
    (target / "new.csv").write_text("".join(lines[:31]))
    part = pq.read_table(target / "scores.parquet").slice(130, 40)
    pa_csv.write_csv(part, target / "part.tsv", pa_csv.WriteOptions(delimiter="\t"))
    scores = "".join(f"{i}\t{i / 20}\n" for i in range(21))
    (target / "rows.tsv").write_text(f"id\tscore\n{scores}")
    matches = (scratch / "search.pin").read_text().splitlines(keepends=True)
    (target / "search.pin").write_text("".join(matches[:62]))


def main() -> None:
    target = FOLDER / __version__
    shutil.rmtree(target, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
        write_corpus(target, Path(scratch))
    (target / "answers").mkdir()
    for name, command in READERS.items():
        with tempfile.TemporaryDirectory() as scratch:
            out = Path(scratch, name)
            punoise(command.format(out), target)
            shutil.copy(answer(out), target / "answers")
    size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    print(f"{target}: {size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
