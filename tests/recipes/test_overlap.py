"""Labeled rows that are in the unlabeled table, too: they have scores, but count only once."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import sketch_scores

import pu_noise_cli as punoise_api

N_LABELED, N_OTHERS, ALPHA = 200, 1500, 0.2


def rows(seed: int = 0, columns: int = 1) -> pd.DataFrame:
    """Labeled positives, then others, a fifth of them positives; `y` is the class."""
    rng = np.random.default_rng(seed)
    known = np.arange(N_LABELED + N_OTHERS) < N_LABELED
    y = known | (rng.random(len(known)) < ALPHA)
    x = rng.normal(size=(len(known), columns)) + 2 * y[:, None] / np.sqrt(columns)
    frame = pd.DataFrame(x, columns=[f"x{i}" for i in range(columns)])
    return frame.assign(name=[f"P{i}" for i in rng.permutation(len(known))], known=known, y=y)


def write(folder: Path, frame: pd.DataFrame, drop: tuple[str, ...] = (), form: str = "csv"):
    """The labeled table and one of all rows, shuffled; their options."""
    kept = frame.drop(columns=["known", "y", *drop])
    tables = {"labeled": kept[frame.known], "all": kept.sample(frac=1, random_state=1)}
    for name, table in tables.items():
        if form == "csv":
            table.to_csv(folder / f"{name}.csv", index=False)
        else:
            table.to_parquet(folder / f"{name}.parquet")
    return ["--labeled", folder / f"labeled.{form}", "--unlabeled", folder / f"all.{form}"]


def prior_of(folder: Path) -> dict:
    return json.loads((folder / "prior.json").read_text())


ID = ("--id-column", "name")
SCORE = ("--score-column", "x0")


def test_rows_in_both_tables_count_once_and_keep_their_rows(punoise, tmp_path):
    tables = write(tmp_path, rows())
    said = punoise("run", *tables, *ID, *SCORE, "--format", "tsv", "--out-dir", tmp_path / "a").err
    assert "200 rows of" in said
    prior = prior_of(tmp_path / "a")
    assert (prior["n_labeled"], prior["n_unlabeled"], prior["n_overlap"]) == (200, 1500, 200)
    assert "rows-in-both-tables" in [warning["code"] for warning in prior["warnings"]]
    found = pd.read_csv(tmp_path / "a" / "posterior.tsv", sep="\t")
    assert found.set.value_counts().to_dict() == {"unlabeled": 1500, "labeled": 200, "overlap": 200}
    both = found[found.set == "overlap"]
    assert set(both.id) == set(found.id[found.set == "labeled"])
    assert both.posterior.notna().all()
    assert both.posterior_labeled.isna().all()
    # the numbers are those of the rows without the overlap
    apart = rows()
    apart[~apart.known].drop(columns=["known", "y"]).to_csv(tmp_path / "rest.csv", index=False)
    others = [*tables[:3], tmp_path / "rest.csv"]
    punoise("run", *others, *ID, *SCORE, "--format", "tsv", "--out-dir", tmp_path / "b")
    assert prior_of(tmp_path / "b")["alpha"] == prior["alpha"]
    assert prior_of(tmp_path / "b")["n_overlap"] is None
    without = pd.read_csv(tmp_path / "b" / "posterior.tsv", sep="\t").set_index(["set", "id"])
    same = found[found.set != "overlap"].set_index(["set", "id"])
    pd.testing.assert_frame_equal(same.loc[without.index], without)


def test_rows_in_both_tables_can_be_counted(punoise, tmp_path):
    tables = write(tmp_path, rows())
    punoise("run", *tables, *ID, *SCORE, "--count-overlap", "--out-dir", tmp_path / "a")
    prior = prior_of(tmp_path / "a")
    assert (prior["n_unlabeled"], prior["n_overlap"]) == (1700, None)
    one = ("--table", tables[3], "--label-column", "name", "--count-overlap")
    assert "--unlabeled" in punoise("run", *one, "--out-dir", tmp_path / "b", expect=2).err


def test_the_chain_gives_the_numbers_of_run(punoise, tmp_path):
    tables, run = write(tmp_path, rows()), tmp_path / "run"
    punoise("run", *tables, *ID, *SCORE, "--format", "tsv", "--out-dir", run)
    scores, prior, out = (tmp_path / name for name in ("s.tsv", "p.json", "post.tsv"))
    punoise("transform", *tables, *ID, *SCORE, "--out", scores)
    assert scores.read_bytes() == (run / "scores.tsv").read_bytes()
    punoise("estimate-prior", "--scores", scores, "--out", prior)
    assert prior.read_bytes() == (run / "prior.json").read_bytes()
    punoise("posterior", "--scores", scores, "--prior", prior, "--out", out)
    assert out.read_bytes() == (run / "posterior.tsv").read_bytes()
    sketch_scores(scores, tmp_path / "s.sketch")
    punoise("estimate-prior", "--sketch", tmp_path / "s.sketch", "--out", prior)
    assert prior.read_bytes() == (run / "prior.json").read_bytes()
    audit = ("--rows", 100, "--labeled-rows", 50, "--out", tmp_path / "audit.tsv")
    punoise("audit", "--scores", scores, "--prior", prior, *audit)
    drawn = pd.read_csv(tmp_path / "audit.tsv", sep="\t")
    assert abs(drawn.weight[drawn.set == "unlabeled"].sum() - 1500) < 1
    assert set(drawn.set) == {"labeled", "unlabeled"}


def test_a_learned_score_of_such_a_row_is_that_of_its_labeled_twin(punoise, tmp_path):
    tables = write(tmp_path, rows(columns=5), form="parquet")
    punoise("transform", *tables, *ID, "--out", tmp_path / "s.parquet")
    scores = pd.read_parquet(tmp_path / "s.parquet").set_index("id")
    twins = scores.score[scores.set == "labeled"]
    pd.testing.assert_series_equal(scores.score[scores.set == "overlap"][twins.index], twins)
    punoise("train", *tables, *ID, "--out", tmp_path / "m.punoise")
    for name, table in (("labeled", tables[1]), ("unlabeled", tables[3])):
        known = ("--model", tmp_path / "m.punoise", "--table", table, "--set", name)
        punoise("score", *known, *ID, "--out", tmp_path / f"of-{name}.parquet")
    parts = [pd.read_parquet(tmp_path / f"of-{name}.parquet") for name in ("labeled", "unlabeled")]
    pd.testing.assert_frame_equal(pd.concat(parts).set_index("id"), scores)


def test_without_ids_identical_rows_are_found(punoise, tmp_path):
    frame = rows(columns=3)
    write(tmp_path, frame, drop=("name",), form="parquet")
    tables = write(tmp_path, frame, drop=("name",))  # labeled as text, all rows as numbers
    mixed = [*tables[:3], tmp_path / "all.parquet"]
    for given in (tables, mixed):
        punoise("estimate-prior", *given, *SCORE, "--out", tmp_path / "prior.json")
        assert prior_of(tmp_path)["n_overlap"] == 200
    found = punoise_api.estimate(
        pd.read_csv(tables[1]), pd.read_csv(tables[3]), score_column="x0", purity=0.0
    )
    assert found.prior["n_overlap"] == 200
    assert len(found.unlabeled) == 1700


def estimate(punoise, tmp_path, labeled: pd.DataFrame, others: pd.DataFrame, *more) -> dict:
    labeled.to_csv(tmp_path / "l.csv", index=False)
    others.to_csv(tmp_path / "u.csv", index=False)
    given = ("--labeled", tmp_path / "l.csv", "--unlabeled", tmp_path / "u.csv", *more)
    punoise("estimate-prior", *given, "--out", tmp_path / "prior.json")
    return prior_of(tmp_path)


def test_rows_that_are_alike_by_chance_are_no_overlap(punoise, tmp_path):
    frame = rows(columns=2).drop(columns="name")
    coarse = frame.assign(x0=frame.x0.round(1), x1=0)
    parts = [coarse[frame.known == known].drop(columns=["known", "y"]) for known in (True, False)]
    assert estimate(punoise, tmp_path, *parts, *SCORE)["n_overlap"] is None
    fine = frame.drop(columns=["known", "y"])
    labeled, others = fine[frame.known], fine[~frame.known]
    some = pd.concat([others, labeled[:150]])  # not the whole labeled table
    assert estimate(punoise, tmp_path, labeled, some, *SCORE)["n_overlap"] is None


def test_ids_decide_unless_they_are_row_numbers(punoise, tmp_path):
    frame = rows()
    labeled, others = (frame[frame.known == known].drop(columns=["known", "y"]) for known in (1, 0))
    some = pd.concat([others, labeled[:30].assign(x0=lambda part: part.x0 + 1e-9)])
    assert estimate(punoise, tmp_path, labeled, some, *ID, *SCORE)["n_overlap"] == 30
    for word, first in (("", 0), ("", 1), ("row", 0)):
        numbered = [
            part.assign(name=[f"{word}{i + first}" for i in range(len(part))])
            for part in (labeled, others)
        ]
        assert estimate(punoise, tmp_path, *numbered, *ID, *SCORE)["n_overlap"] is None
    genes = [part.assign(name=part.name.str[-1]) for part in (labeled, others)]
    assert estimate(punoise, tmp_path, *genes, *ID, *SCORE)["n_overlap"] is None


def test_posteriors_of_the_others_average_to_their_share(punoise, tmp_path):
    off = []
    for seed in range(3):
        frame = rows(seed)
        tables = write(tmp_path, frame)
        punoise("run", *tables, *ID, *SCORE, "--format", "tsv", "--out-dir", tmp_path / "a")
        found = pd.read_csv(tmp_path / "a" / "posterior.tsv", sep="\t")
        mean = found.posterior[found.set == "unlabeled"].mean()
        off.append(mean - frame.y[~frame.known].mean())
    assert abs(np.mean(off)) < 0.03


def test_shards_have_the_same_rows(punoise, tmp_path):
    frame = rows()
    tables = write(tmp_path, frame, form="parquet")
    (tmp_path / "u").mkdir()
    every = pd.read_parquet(tables[3])
    for i, part in enumerate(np.array_split(np.arange(len(every)), 3)):
        every.iloc[part].to_parquet(tmp_path / "u" / f"{i}.parquet")
    run = ("run", *tables[:3], tmp_path / "u", *ID, *SCORE)
    punoise(*run, "--shards", "--out-dir", tmp_path / "a")
    punoise("run", *tables, *ID, *SCORE, "--out-dir", tmp_path / "b")
    parts = [
        pd.read_parquet(path) for path in sorted((tmp_path / "a" / "posterior").glob("*.parquet"))
    ]
    pd.testing.assert_frame_equal(
        pd.concat(parts, ignore_index=True), pd.read_parquet(tmp_path / "b" / "posterior.parquet")
    )
    assert (tmp_path / "a" / "prior.json").read_bytes() == (
        tmp_path / "b" / "prior.json"
    ).read_bytes()


@pytest.mark.parametrize("by", ["gene", "none"])
def test_groups_do_not_count_them(punoise, tmp_path, by):
    frame = rows().assign(gene=np.arange(N_LABELED + N_OTHERS) % 3, none="")
    tables = write(tmp_path, frame)
    punoise("run", *tables, *ID, *SCORE, "--by", by, "--format", "tsv", "--out-dir", tmp_path / "a")
    found = pd.read_csv(tmp_path / "a" / "groups.tsv", sep="\t")
    assert found.n_unlabeled.sum() == 1500
    assert found.n_labeled.sum() == 200
