"""Tables in shards: the same answers and rows as from one file, in one process or on Dask."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import N_SHARDS, contents, sketch_scores

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


def whole(tmp_path: Path) -> list[object]:
    return ["--labeled", tmp_path / "l.parquet", "--unlabeled", tmp_path / "whole.parquet"]


def table(path: Path) -> pd.DataFrame:
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    return pd.concat([pd.read_parquet(file) for file in files], ignore_index=True)


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
    assert manifest["shards"] == [
        "labeled-l.parquet",
        *(f"unlabeled-part{i}.parquet" for i in range(N_SHARDS)),
    ]
    assert manifest["complete"]


@pytest.mark.parametrize(
    ("form", "extra"),
    [
        ("csv", ()),
        ("parquet", ("--id-column", "name")),
        ("parquet", ("--group-column", "name")),
    ],
)
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
            sketch_scores(out, sketches[-1])
    pd.testing.assert_frame_equal(
        pd.concat(rows, ignore_index=True), pd.read_csv(tmp_path / "s.tsv", sep="\t")
    )
    punoise("estimate-prior", "--scores", tmp_path / "s.tsv", "--out", tmp_path / "p.json")
    punoise("estimate-prior", "--sketch", *sketches[::-1], "--out", tmp_path / "p2.json")
    assert (tmp_path / "p.json").read_bytes() == (tmp_path / "p2.json").read_bytes()
    all_sketches = [word for sketch in sketches for word in ("--sketch", sketch)]
    posterior = ["posterior", "--prior", tmp_path / "p.json", "--out", "-", "--scores"]
    parts_out = [
        punoise(*posterior, sketch.with_suffix(".tsv"), *all_sketches).out.decode()
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


def test_shards_of_an_interrupted_command_are_not_taken_for_a_table(sharded, punoise, tmp_path):
    transform = ("transform", *sharded, *FAST, "--out", f"{tmp_path}/s/")
    punoise(*transform)
    manifest = tmp_path / "s" / shards.MANIFEST
    stated = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(stated | {"complete": False}))
    for name in ("s", "s/*.parquet"):
        assert "incomplete" in punoise("estimate-prior", "--scores", tmp_path / name, expect=3).err
    punoise(*transform)
    assert json.loads(manifest.read_text()) == stated
    manifest.write_text("{}")  # of another program
    punoise("estimate-prior", "--scores", tmp_path / "s")
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
    assert "no rows" in result.err
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
    sketch_scores(scores, tmp_path / "all.sketch")
    rows = pd.read_csv(scores, sep="\t")
    rows.drop(columns="set").to_csv(tmp_path / "new.tsv", sep="\t", index=False)
    posterior = ["posterior", "--alpha", "0.2", "--scores", tmp_path / "new.tsv", "--sketch"]
    punoise(*posterior, tmp_path / "all.sketch", "--out", tmp_path / "q.tsv")
    punoise("posterior", "--alpha", "0.2", "--scores", scores, "--out", tmp_path / "r.tsv")
    new, old = (pd.read_csv(tmp_path / name, sep="\t") for name in ("q.tsv", "r.tsv"))
    pd.testing.assert_frame_equal(new, old[new.columns])
    rows[:100].to_csv(tmp_path / "l.tsv", sep="\t", index=False)
    sketch_scores(tmp_path / "l.tsv", tmp_path / "l.sketch")
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


def test_a_sketch_does_not_count_twice(scores, punoise, tmp_path):
    sketch_scores(scores, tmp_path / "a.sketch")
    twice = (tmp_path / "a.sketch", tmp_path / "a.sketch")
    punoise("estimate-prior", "--sketch", *twice, expect=2)
