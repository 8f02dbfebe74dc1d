"""Tables in shards: the same answers and rows as from one file, in one process or on Dask."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from conftest import needs_slurm
from test_matches import outputs as match_outputs
from test_matches import pin_table, write_pin
from test_psms import pin_lines

from pu_noise_cli.errors import InputError
from pu_noise_cli.scale import engine as shards
from pu_noise_cli.score.sketch import (
    SKETCH_FORMAT,
    Sketch,
    load_sketch,
    save_sketch,
    sketch_arrays,
)
from pu_noise_cli.tables.files import write_archive

FAST = ("--classifier", "logistic", "--max-train-rows", "120")
N_SHARDS = 5


@pytest.fixture
def sharded(tmp_path, frames) -> list[str]:
    """The tables, the unlabeled one cut into shards of different sizes."""
    labeled, unlabeled = frames
    (tmp_path / "u").mkdir()
    labeled.to_parquet(tmp_path / "l.parquet")
    unlabeled.to_parquet(tmp_path / "whole.parquet")
    cuts = [0, 10, 200, 201, 300, len(unlabeled)]
    for i in range(N_SHARDS):
        unlabeled[cuts[i] : cuts[i + 1]].to_parquet(tmp_path / "u" / f"part{i}.parquet")
    return ["--labeled", tmp_path / "l.parquet", "--unlabeled", tmp_path / "u"]


def whole(tmp_path: Path) -> list[object]:
    return ["--labeled", tmp_path / "l.parquet", "--unlabeled", tmp_path / "whole.parquet"]


def table(path: Path) -> pd.DataFrame:
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    return pd.concat([pd.read_parquet(file) for file in files], ignore_index=True)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "provenance.json"
    }


def test_shards_have_the_rows_of_one_table(sharded, punoise, tmp_path):
    punoise("transform", *whole(tmp_path), *FAST, "--out", tmp_path / "s.parquet")
    punoise("transform", *sharded, *FAST, "--out", f"{tmp_path}/scores/")
    pd.testing.assert_frame_equal(table(tmp_path / "s.parquet"), table(tmp_path / "scores"))
    for scores in ("s.parquet", "scores"):
        punoise("estimate-prior", "--scores", tmp_path / scores, "--out", tmp_path / f"{scores}.p")
    assert (tmp_path / "s.parquet.p").read_bytes() == (tmp_path / "scores.p").read_bytes()
    posterior = ["posterior", "--prior", tmp_path / "scores.p", "--scores"]
    punoise(*posterior, tmp_path / "s.parquet", "--out", tmp_path / "q.parquet")
    punoise(*posterior, tmp_path / "scores", "--out", f"{tmp_path}/posterior/")
    pd.testing.assert_frame_equal(table(tmp_path / "q.parquet"), table(tmp_path / "posterior"))
    manifest = json.loads((tmp_path / "posterior" / shards.MANIFEST).read_text())
    assert [entry["file"] for entry in manifest["shards"]] == [
        "labeled-l.parquet",
        *(f"unlabeled-part{i}.parquet" for i in range(N_SHARDS)),
    ]
    assert manifest["rows"] == len(table(tmp_path / "q.parquet"))


@pytest.mark.parametrize("form", ["parquet", "csv"])
@pytest.mark.parametrize("extra", [(), ("--id-column", "name"), ("--group-column", "name")])
def test_files_scored_one_by_one_are_the_transform(form, extra, punoise, frames, tmp_path):
    labeled, unlabeled = (f.assign(name=[f"r{i % 40}" for i in range(len(f))]) for f in frames)
    if not extra:
        labeled, unlabeled = labeled.drop(columns="name"), unlabeled.drop(columns="name")
    save = {"parquet": "to_parquet", "csv": "to_csv"}[form]
    parts = {"labeled": [labeled], "unlabeled": [unlabeled[:150], unlabeled[150:]]}
    for name, frames_of in parts.items():
        (tmp_path / name).mkdir()
        for i, part in enumerate(frames_of):
            getattr(part, save)(tmp_path / name / f"{i}.{form}", index=False)
    tables = ["--labeled", tmp_path / "labeled", "--unlabeled", tmp_path / "unlabeled"]
    punoise("transform", *tables, *FAST, *extra, "--out", tmp_path / "s.tsv")
    punoise("train", *tables, *FAST, *extra, "--out", tmp_path / "m.punoise")
    ids = extra if "--id-column" in extra else ()
    rows, sketches = [], []
    for name, frames_of in parts.items():
        for i in range(len(frames_of)):
            out = tmp_path / f"{name}{i}.tsv"
            source = ["--table", tmp_path / name / f"{i}.{form}", "--set", name]
            punoise("score", "--model", tmp_path / "m.punoise", *source, *ids, "--out", out)
            rows.append(pd.read_csv(out, sep="\t"))
            sketches.append(tmp_path / f"{name}{i}.sketch")
            punoise("sketch", "--scores", out, "--out", sketches[-1])
    pd.testing.assert_frame_equal(
        pd.concat(rows, ignore_index=True), pd.read_csv(tmp_path / "s.tsv", sep="\t")
    )
    punoise("estimate-prior", "--scores", tmp_path / "s.tsv", "--out", tmp_path / "p.json")
    punoise("estimate-prior", "--sketch", *sketches[::-1], "--out", tmp_path / "p2.json")
    assert (tmp_path / "p.json").read_bytes() == (tmp_path / "p2.json").read_bytes()
    punoise("merge-sketches", *sketches, "--out", tmp_path / "all.sketch")
    posterior = ["posterior", "--prior", tmp_path / "p.json", "--out", "-", "--scores"]
    parts_out = [
        punoise(
            *posterior, sketch.with_suffix(".tsv"), "--sketch", tmp_path / "all.sketch"
        ).out.decode()
        for sketch in sketches
    ]
    header = parts_out[0].split("\n")[0]
    joined = header + "\n" + "".join(out.removeprefix(header + "\n") for out in parts_out)
    assert joined == punoise(*posterior, tmp_path / "s.tsv").out.decode()


def test_a_combined_table_is_scored_file_by_file(punoise, frames, tmp_path):
    labeled, unlabeled = frames
    both = pd.concat([labeled.assign(known=1), unlabeled.assign(known=0)]).sample(
        frac=1, random_state=0
    )
    (tmp_path / "t").mkdir()
    for i, part in enumerate((both[:200], both[200:])):
        part.to_parquet(tmp_path / "t" / f"{i}.parquet")
    columns = ("--label-column", "known")
    punoise("transform", "--table", tmp_path / "t", *columns, *FAST, "--out", tmp_path / "s.tsv")
    punoise("train", "--table", tmp_path / "t", *columns, *FAST, "--out", tmp_path / "m")
    score = ["score", "--model", tmp_path / "m", *columns, "--out", "-", "--table"]
    out = [punoise(*score, tmp_path / "t" / f"{i}.parquet").out.decode() for i in range(2)]
    assert out[0] + out[1].split("\n", 1)[1] == (tmp_path / "s.tsv").read_text()


def test_what_does_not_fit_the_training_tables_is_said(sharded, punoise, frames, tmp_path):
    model = ["score", "--model", tmp_path / "m", "--out", tmp_path / "s.tsv"]
    punoise("train", *sharded, *FAST, "--out", tmp_path / "m")
    other = tmp_path / "other.parquet"
    frames[1].to_parquet(other)
    result = punoise(*model, "--table", other, "--set", "unlabeled", expect=3)
    assert "part0.parquet" in result.err
    frames[1][:5].to_parquet(tmp_path / "part1.parquet")
    result = punoise(*model, "--table", tmp_path / "part1.parquet", "--set", "unlabeled", expect=3)
    assert "part1.parquet: has 5 rows" in result.err
    assert not (tmp_path / "s.tsv").exists()
    punoise(
        "transform", *sharded, *FAST, "--out", tmp_path / "x.tsv", "--model-out", tmp_path / "n"
    )
    plain = [*model[:2], tmp_path / "n", *model[3:]]
    result = punoise(*plain, "--table", other, "--set", "unlabeled", expect=2)
    assert "train" in result.err


def test_shards_that_are_there_are_kept_on_resume(sharded, punoise, tmp_path, monkeypatch):
    out = f"{tmp_path}/scores/"
    punoise("transform", *sharded, *FAST, "--out", out)
    before = contents(tmp_path / "scores")
    stamps = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "scores").glob("*.parquet")}
    (tmp_path / "scores" / "unlabeled-part2.parquet").unlink()
    (tmp_path / "scores" / "unlabeled-part3.parquet").write_bytes(b"torn")
    (tmp_path / "scores" / shards.MANIFEST).unlink()
    punoise("transform", *sharded, *FAST, "--out", out, "--resume")
    assert contents(tmp_path / "scores") == before
    new = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "scores").glob("*.parquet")}
    made = {name for name in stamps if stamps[name] != new[name]}
    assert made == {"unlabeled-part2.parquet", "unlabeled-part3.parquet"}
    # with another seed none of them is the same
    punoise("transform", *sharded, *FAST, "--out", out, "--resume", "--seed", "1")
    assert all(v != before[k] for k, v in contents(tmp_path / "scores").items())


def test_sharded_run_equals_the_plain_one(sharded, punoise, tmp_path):
    punoise("run", *whole(tmp_path), *FAST, "--out-dir", tmp_path / "plain")
    punoise("run", *sharded, *FAST, "--out-dir", tmp_path / "run", "--shards")
    for name in ("scores", "posterior"):
        pd.testing.assert_frame_equal(
            table(tmp_path / "plain" / f"{name}.parquet"), table(tmp_path / "run" / name)
        )
    for name in ("prior.json", "model.punoise"):
        assert (tmp_path / "plain" / name).read_bytes() == (tmp_path / "run" / name).read_bytes()


def test_bad_targets_for_shards(sharded, punoise, tables, tmp_path):
    result = punoise("transform", *tables, *FAST, "--out", f"{tmp_path}/x/", expect=2)
    assert "Parquet" in result.err
    (tmp_path / "y").mkdir()
    (tmp_path / "y" / "mine.parquet").write_bytes(b"")
    result = punoise("transform", *sharded, *FAST, "--out", f"{tmp_path}/y/", expect=2)
    assert "holds 'mine.parquet'" in result.err
    result = punoise(
        "transform", *sharded, *FAST, "--out", tmp_path / "z.tsv", "--resume", expect=2
    )
    assert "end in '/'" in result.err


def test_no_input_is_overwritten(sharded, punoise, frames, tmp_path):
    punoise("train", *sharded, *FAST, "--out", tmp_path / "m")
    before = contents(tmp_path / "u")
    score = ["score", "--model", tmp_path / "m", "--table"]
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "part1.parquet").symlink_to(tmp_path / "u" / "part1.parquet")
    for out in ("u/", "u/part1.parquet", "links/"):
        for source in (tmp_path / "u", f"{tmp_path}/u/*.parquet"):
            result = punoise(*score, source, "--out", f"{tmp_path}/{out}", expect=2)
            assert "would overwrite" in result.err
    assert contents(tmp_path / "u") == before
    frames[1].to_csv(tmp_path / "scores.csv", index=False)  # a name that run cleans up
    tables = ["--labeled", tmp_path / "l.parquet", "--unlabeled", tmp_path / "scores.csv"]
    result = punoise("run", *tables, *FAST, "--out-dir", tmp_path, expect=2)
    assert "would overwrite" in result.err


def test_resume_knows_a_changed_file_of_the_same_size(sharded, punoise, frames, tmp_path):
    punoise("train", *sharded, *FAST, "--out", tmp_path / "m")
    source = tmp_path / "t" / "x.parquet"
    source.parent.mkdir()
    rows = pd.concat([frames[1]] * 40, ignore_index=True)
    score = ["score", "--model", tmp_path / "m", "--table", source.parent, "--resume", "--out"]
    files = []
    for value in (0.1, 0.2):
        rows.loc[3, "a"] = value
        rows.to_parquet(source, compression=None, use_dictionary=False)
        punoise(*score, f"{tmp_path}/s/")
        files.append(source.read_bytes())
    assert len(files[0]) == len(files[1])
    assert files[0][-(1 << 16) :] == files[1][-(1 << 16) :]  # nor does the footer tell
    punoise(*score, f"{tmp_path}/new/")
    assert contents(tmp_path / "s") == contents(tmp_path / "new")


def test_resume_knows_other_columns(punoise, frames, tmp_path):
    rows = pd.concat(frames, ignore_index=True).assign(k=[0, 1] * 275, j=[1, 0] * 275)
    (tmp_path / "t").mkdir()
    rows.to_parquet(tmp_path / "t" / "0.parquet")
    transform = ["transform", "--table", tmp_path / "t", "--score-column", "a", "--resume"]
    for label, out in (("k", "s"), ("j", "s"), ("j", "new")):
        punoise(*transform, "--label-column", label, "--out", f"{tmp_path}/{out}/")
    assert contents(tmp_path / "s") == contents(tmp_path / "new")
    tables = ["--table", tmp_path / "t", "--label-column", "j", "--score-column", "a"]
    punoise("transform", *tables, "--out", tmp_path / "x.tsv", "--model-out", tmp_path / "m")
    posterior = ["posterior", "--scores", tmp_path / "s", "--alpha", "0.2", "--resume", "--out"]
    punoise(*posterior, f"{tmp_path}/q/")
    for out in ("q", "new_q"):
        punoise(*posterior, f"{tmp_path}/{out}/", "--model", tmp_path / "m")
    assert contents(tmp_path / "q") == contents(tmp_path / "new_q")


def test_shards_of_an_unfinished_run_are_not_taken_for_a_table(sharded, punoise, tmp_path):
    punoise("transform", *sharded, *FAST, "--out", f"{tmp_path}/s/")
    (tmp_path / "s" / shards.MANIFEST).unlink()
    result = punoise("estimate-prior", "--scores", tmp_path / "s", expect=3)
    assert "s: has no _manifest.json" in result.err
    assert (
        punoise("estimate-prior", "--scores", f"{tmp_path}/s/*.parquet").prior["n_labeled"] == 150
    )
    # nor is what an earlier run has left, where this one has failed
    run = ["run", *sharded, *FAST, "--shards", "--out-dir", tmp_path / "r"]
    punoise(*run)
    pd.DataFrame({"a": ["x"] * 30, "b": 0.0, "c": 0.0}).to_parquet(tmp_path / "u" / "part4.parquet")
    punoise(*run, expect=3)
    assert (tmp_path / "r" / "posterior" / shards.MANIFEST).exists()
    punoise(*run, "--on-failure", "write")
    assert not (tmp_path / "r" / "posterior" / shards.MANIFEST).exists()  # not of this run
    failed = json.loads((tmp_path / "r" / "prior.json").read_text())
    assert failed["alpha"] is None


def test_names_that_cannot_be_told_apart_or_read_back(sharded, punoise, frames, tmp_path):
    for name in ("1/p.parquet", "2/p.parquet", "h/_a.parquet", "h/b.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        frames[1].to_parquet(tmp_path / name)
    tables = ["--labeled", tmp_path / "l.parquet", "--unlabeled", f"{tmp_path}/[12]/p.parquet"]
    result = punoise("train", *tables, *FAST, "--out", tmp_path / "m", expect=3)
    assert "'p.parquet'" in result.err
    punoise("train", *sharded, *FAST, "--out", tmp_path / "m")
    score = ["score", "--model", tmp_path / "m", "--out", f"{tmp_path}/o/", "--table"]
    result = punoise(*score, f"{tmp_path}/h/*.parquet", expect=3)
    assert "_a.parquet" in result.err
    frames[1][:0].to_parquet(tmp_path / "empty.parquet")
    result = punoise(*score, tmp_path / "empty.parquet", expect=3)
    assert "the table has no rows" in result.err
    assert not (tmp_path / "o").exists()


def test_a_model_of_one_table_has_no_sets(punoise, frames, tmp_path):
    rows = pd.concat([f.assign(k=i) for i, f in enumerate(frames)], ignore_index=True)
    rows.to_parquet(tmp_path / "t.parquet")
    source = ["--table", tmp_path / "t.parquet"]
    punoise("train", *source, "--label-column", "k", *FAST, "--out", tmp_path / "m")
    for name in ("labeled", "unlabeled"):
        score = ["score", "--model", tmp_path / "m", *source, "--out", tmp_path / "s.tsv"]
        result = punoise(*score, "--set", name, expect=2)
        assert "label column" in result.err


def test_sketches_calibrate_new_rows_and_must_have_enough(sharded, scores, punoise, tmp_path):
    punoise("sketch", "--scores", scores, "--out", tmp_path / "all.sketch")
    rows = pd.read_csv(scores, sep="\t")
    rows.drop(columns="set").to_csv(tmp_path / "new.tsv", sep="\t", index=False)
    posterior = ["posterior", "--alpha", "0.2", "--scores", tmp_path / "new.tsv", "--sketch"]
    punoise(*posterior, tmp_path / "all.sketch", "--out", tmp_path / "q.tsv")
    punoise("posterior", "--alpha", "0.2", "--scores", scores, "--out", tmp_path / "r.tsv")
    new, old = (pd.read_csv(tmp_path / name, sep="\t") for name in ("q.tsv", "r.tsv"))
    pd.testing.assert_frame_equal(new, old[new.columns])
    rows[:100].to_csv(tmp_path / "l.tsv", sep="\t", index=False)
    punoise("sketch", "--scores", tmp_path / "l.tsv", "--out", tmp_path / "l.sketch")
    result = punoise(*posterior, tmp_path / "l.sketch", "--out", tmp_path / "x.tsv", expect=3)
    assert "l.sketch: only 0 unlabeled rows" in result.err
    sketch = tmp_path / "all.sketch"
    punoise("estimate-prior", "--sketch", sketch, "--out", sketch, expect=2)


def test_a_damaged_sketch_is_an_input_error():
    sketch = Sketch.from_samples(np.arange(30.0), np.arange(50.0))
    file = io.BytesIO()
    save_sketch(sketch, file)
    raw, rng = file.getvalue(), np.random.default_rng(0)
    for _ in range(2000):  # many kinds of errors, among them those of a wrong zip version
        damaged = bytearray(raw)
        damaged[rng.integers(400)] = rng.integers(256)
        with contextlib.suppress(InputError):
            load_sketch("x.sketch", io.BytesIO(damaged))
    arrays = sketch_arrays(sketch)
    for wrong, level in (
        ({"labeled": -sketch.labeled}, 0),
        ({"labeled": sketch.labeled / 2}, 0),
        ({"labeled": 0 * sketch.labeled, "unlabeled": 0 * sketch.unlabeled}, 0),
        ({"edges": sketch.edges[::-1]}, 0),
        ({"edges": np.arange(50)}, 0),
        ({}, 50),
        ({}, 0.5),
    ):
        file = io.BytesIO()
        write_archive(
            file,
            SKETCH_FORMAT,
            {"level": level, "missing": 0, "labeled_class": "positive"},
            {**arrays, **wrong},
        )
        file.seek(0)
        with pytest.raises(InputError, match=r"x\.sketch: "):
            load_sketch("x.sketch", file)


# ---- Dask: a real scheduler and real worker processes


@contextlib.contextmanager
def _process(module: str, *args: object, until: str, log: Path) -> Iterator[re.Match[str]]:
    """A process in the background that has said what it is to say; it is killed at the end."""
    command = [sys.executable, "-m", module, *map(str, args)]
    with open(log, "wb") as file:
        process = subprocess.Popen(command, stderr=file, stdout=file, start_new_session=True)
    try:
        deadline = time.monotonic() + 60
        while not (found := re.search(until, log.read_text())):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        yield found
    finally:
        _kill(process.pid)
        process.wait()


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory) -> Iterator[str]:
    pytest.importorskip("distributed", reason="Dask is not installed")
    log = tmp_path_factory.mktemp("dask") / "scheduler.log"
    module, options = "distributed.cli.dask_scheduler", ("--host", "127.0.0.1", "--port", 0)
    with _process(
        module, *options, "--no-dashboard", until=r"Scheduler at:\s+(tcp://\S+)", log=log
    ) as found:
        yield found[1]


@contextlib.contextmanager
def worker(scheduler: str, folder: Path, name: str) -> Iterator[int]:
    """A worker of one thread; gives its process id."""
    (folder / name).mkdir()
    options = ("--nthreads", 1, "--no-dashboard", "--no-nanny", "--local-directory", folder / name)
    module, log, pid_file = (
        "distributed.cli.dask_worker",
        folder / f"{name}.log",
        folder / name / "p",
    )
    with _process(
        *(module, scheduler, *options, "--pid-file", pid_file), until="Registered to:", log=log
    ):
        yield int(pid_file.read_text())


def shell(*args: object, expect: int = 0) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, as a Dask client leaves threads behind."""
    command = [sys.executable, "-m", "pu_noise_cli", *map(str, args)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == expect, result.stderr
    return result


def test_dask_writes_the_bytes_of_the_local_run(scheduler, sharded, punoise, tmp_path):
    punoise("run", *sharded, *FAST, "--out-dir", tmp_path / "local", "--shards")
    with worker(scheduler, tmp_path, "w1"), worker(scheduler, tmp_path, "w2"):
        shell("run", *sharded, *FAST, "--out-dir", tmp_path / "dask", "--dask", scheduler)
        prior = shell("estimate-prior", "--scores", tmp_path / "dask/scores", "--dask", scheduler)
        direct = shell("estimate-prior", *sharded, *FAST, "--dask", scheduler)
    assert contents(tmp_path / "dask") == contents(tmp_path / "local")
    assert prior.stdout == (tmp_path / "local" / "prior.json").read_text() == direct.stdout


@pytest.mark.ci
def test_shards_by_dask_say_that_labeled_rows_are_negatives(scheduler, sharded, tmp_path):
    negatives = ("--labeled-are", "negatives")
    with worker(scheduler, tmp_path, "w1"):
        out = ("--out", f"{tmp_path}/s/", "--dask", scheduler)
        shell("transform", *sharded, *FAST, *negatives, *out)
        there = shell("estimate-prior", "--scores", tmp_path / "s", "--dask", scheduler)
    local = shell("estimate-prior", "--scores", tmp_path / "s", *negatives)
    assert json.loads(there.stdout)["labeled_are"] == "negatives"
    assert there.stdout == local.stdout


@pytest.mark.ci
def test_dask_finds_the_groups_of_the_local_run(scheduler, sharded, punoise, tmp_path):
    for path in (tmp_path / "l.parquet", *(tmp_path / "u").glob("*.parquet")):
        frame = pd.read_parquet(path)
        frame.assign(gene=np.where(frame.b > 0, "high", "low")).to_parquet(path)
    command = ("run", *sharded, "--score-column", "a", "--by", "gene", "--evidence", "acmg")
    punoise(*command, "--out-dir", tmp_path / "local", "--shards")
    with worker(scheduler, tmp_path, "w1"), worker(scheduler, tmp_path, "w2"):
        shell(*command, "--out-dir", tmp_path / "dask", "--dask", scheduler)
    assert contents(tmp_path / "dask") == contents(tmp_path / "local")
    assert len(pd.read_parquet(tmp_path / "dask" / "groups.parquet")) == 3


@pytest.mark.ci
def test_an_error_on_a_worker_is_an_error_here(scheduler, sharded, frames, tmp_path):
    frames[1].assign(a=float("inf")).to_parquet(tmp_path / "u" / "part3.parquet")
    command = ("transform", *sharded, *FAST, "--out", f"{tmp_path}/s/", "--dask", scheduler)
    with worker(scheduler, tmp_path, "w"):
        result = shell(*command, expect=3)
    assert "part3.parquet: column 'a'" in result.stderr
    assert not (tmp_path / "s" / shards.MANIFEST).exists()


def test_no_scheduler_is_a_usage_error(sharded, tmp_path, punoise, monkeypatch):
    pytest.importorskip("distributed", reason="Dask is not installed")
    monkeypatch.setattr("pu_noise_cli.scale.engine.CONNECT_SECONDS", 1)
    command = ("transform", *sharded, *FAST, "--out", f"{tmp_path}/s/")
    result = punoise(*command, "--dask", "tcp://127.0.0.1:9", expect=2)
    assert "no scheduler answers" in result.err


@pytest.mark.ci
def test_dask_reads_parquet_only(scheduler, sharded, scores, tables, tmp_path):
    for source in (["--scores", scores], tables):
        result = shell("estimate-prior", *source, "--dask", scheduler, expect=2)
        assert "Parquet" in result.stderr
    (tmp_path / "file").write_text("{}")
    command = ("transform", *sharded, *FAST, "--out", f"{tmp_path}/s/")
    result = shell(*command, "--dask", tmp_path / "file", expect=2)
    assert "no scheduler answers" in result.stderr


@pytest.mark.ci
def test_a_worker_killed_in_the_middle_changes_nothing(scheduler, frames, tmp_path):
    labeled, unlabeled = frames
    (tmp_path / "u").mkdir()
    for i in range(12):
        rows = unlabeled.sample(20_000, replace=True, random_state=i, ignore_index=True)
        rows.to_parquet(tmp_path / "u" / f"{i:02}.parquet")
    labeled.to_parquet(tmp_path / "l.parquet")
    tables = ("--labeled", tmp_path / "l.parquet", "--unlabeled", tmp_path / "u")
    shell("train", *tables, "--max-train-rows", 500, "--out", tmp_path / "m")
    score = ("score", "--model", tmp_path / "m", "--table", tmp_path / "u", "--out")
    shell(*score, f"{tmp_path}/local/")
    out = tmp_path / "dask"
    with worker(scheduler, tmp_path, "w1"), worker(scheduler, tmp_path, "w2") as doomed:
        command = [*score, f"{out}/", "--dask", scheduler]
        running = subprocess.Popen([sys.executable, "-m", "pu_noise_cli", *map(str, command)])
        deadline = time.monotonic() + 60
        while not list(out.glob("[0-9]*.parquet")):
            assert time.monotonic() < deadline
            assert running.poll() is None
            time.sleep(0.01)
        _kill(doomed)
        done = len(list(out.glob("[0-9]*.parquet")))
        assert running.wait(120) == 0
    assert done < 12, "all was done before the worker was killed"
    assert contents(out) == contents(tmp_path / "local")
    assert sum(pq.read_metadata(path).num_rows for path in out.glob("*.parquet")) == 240_000


@pytest.mark.slurm
@needs_slurm
def test_dask_on_slurm_writes_the_bytes_of_the_local_run(sharded, punoise, tmp_path):
    pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed")
    punoise("run", *sharded, *FAST, "--out-dir", tmp_path / "local", "--shards")
    script = Path(__file__).parent.parent / "docs" / "dask_on_slurm.py"
    command = [sys.executable, script, "run", *sharded, *FAST, "--out-dir", tmp_path / "slurm"]
    env = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "DASK_JOBQUEUE__SLURM__INTERFACE": "lo",  # a scratch cluster has no other
    }
    result = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stderr
    assert contents(tmp_path / "slurm") == contents(tmp_path / "local")


def test_a_sketch_does_not_count_twice(scores, punoise, tmp_path):
    punoise("sketch", "--scores", scores, "--out", tmp_path / "a.sketch")
    twice = (tmp_path / "a.sketch", tmp_path / "a.sketch")
    punoise("merge-sketches", *twice, "--out", tmp_path / "b.sketch", expect=2)
    punoise("estimate-prior", "--sketch", *twice, expect=2)


@pytest.mark.parametrize("kind", ["pin", "parquet"])
def test_dask_finds_the_matches_of_the_local_run(kind, scheduler, tmp_path):
    (tmp_path / "runs").mkdir()
    for seed, name in enumerate("abc"):
        if kind == "pin":
            write_pin(tmp_path / "runs" / f"{name}.pin", pin_lines(300, seed))
        else:
            pin_table(300, seed).to_parquet(tmp_path / "runs" / f"{name}.parquet")
    given = ("matches", tmp_path / "runs", "--max-train-rows", 700)
    shell(*given, "--out-dir", tmp_path / "local")
    with worker(scheduler, tmp_path, "w1"), worker(scheduler, tmp_path, "w2"):
        shell(*given, "--out-dir", tmp_path / "dask", "--dask", scheduler)
    assert match_outputs(tmp_path / "dask") == match_outputs(tmp_path / "local")
