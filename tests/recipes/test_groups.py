"""Groups: each has its own share of positives, and leans on all the more the smaller it is."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import call_quietly, sketch_scores

OTHER = "(other)"  # the name of rows whose group is not one of the table's
ALPHAS = {"large": 0.5, "small": 0.5, **{f"G{i}": 0.05 for i in range(8)}}
SIZES = {"large": 2000, "small": 20, **{f"G{i}": 300 for i in range(8)}}


def genes(
    seed: int, various: bool = False, shift: float = 0.0, labeled_share: float = 0.95
) -> pd.DataFrame:
    """Rows of the genes of ALPHAS and SIZES, or of various ones, with their classes and shares.

    Labeled rows come first.
    """
    rng = np.random.default_rng(seed)
    alphas, sizes = ALPHAS, SIZES
    if various:
        alphas, sizes = (
            {f"V{i}": value for i, value in enumerate(np.exp(rng.uniform(*np.log(ends), 30)))}
            for ends in ((0.01, 0.5), (30, 3000))
        )
    parts = []
    for name, alpha in alphas.items():
        moved, size = shift * rng.normal(), int(sizes[name])
        for labeled, n in ((1, max(20, size // 4)), (0, size)):
            y = rng.random(n) < (labeled_share if labeled else alpha)
            score = (rng.normal(size=n) + 2 * y + moved).round(6)
            rows = {"gene": name, "known": labeled, "s": score, "y": y, "alpha": alpha}
            parts.append(pd.DataFrame({**rows, "moved": moved}))
    return pd.concat(parts).sort_values("known", ascending=False, kind="stable", ignore_index=True)


@pytest.fixture
def estimated(punoise, tmp_path):
    """A function that estimates alpha of all rows and, if wanted, of each gene."""

    def call(frame: pd.DataFrame, *more: object, by: bool = True) -> pd.DataFrame | float:
        rows = frame.assign(set=np.where(frame.known == 1, "labeled", "unlabeled"), id=frame.index)
        rows.rename(columns={"s": "score"}).to_parquet(tmp_path / "scores.parquet")
        words = ["estimate-prior", "--scores", tmp_path / "scores.parquet", *more]
        if not by:
            return punoise(*words).prior["alpha"]
        punoise(*words, "--by", "gene", "--groups-out", tmp_path / "g.tsv")
        return pd.read_csv(tmp_path / "g.tsv", sep="\t", index_col="group")

    return call


def write_tables(folder: Path) -> list[str]:
    """Tables of genes with one score, the unlabeled one also in three files; their options."""
    frame = genes(1).drop(columns=["y", "alpha", "moved"])
    frame.loc[frame.index % 97 == 0, "gene"] = None
    labeled, unlabeled = (frame[frame.known == k].drop(columns="known") for k in (1, 0))
    labeled.to_parquet(folder / "l.parquet")
    unlabeled.to_parquet(folder / "u.parquet")
    (folder / "u").mkdir()
    for i, part in enumerate(np.array_split(np.random.default_rng(0).permutation(3000), 3)):
        unlabeled.iloc[np.sort(part)].to_parquet(folder / "u" / f"{i}.parquet")
    return ["--labeled", f"{folder}/l.parquet", "--unlabeled", f"{folder}/u.parquet"]


BY = ("--score-column", "s", "--by", "gene")


@pytest.fixture
def tables(tmp_path) -> list[str]:
    return write_tables(tmp_path)


@pytest.fixture(scope="session")
def ran(shared) -> Path:
    """A directory with the tables and, by gene, what run (in tsv) and calibrate write of them."""

    def fill(folder: Path) -> None:
        tables = write_tables(folder)
        for command, form in (("run", "tsv"), ("calibrate", "parquet")):
            out = ("--format", form, "--out-dir", folder / form)
            call_quietly(command, *tables, *BY, *out)

    return shared("groups", fill)


# ---- What is estimated


def test_a_small_group_leans_on_all_and_a_large_one_on_itself(estimated):
    pooled = [estimated(genes(seed)) for seed in range(4)]
    mean = sum(one.alpha for one in pooled) / len(pooled)
    assert abs(mean["large"] - 0.5) < 0.05
    assert 0.1 < mean["small"] < mean["large"] - 0.05
    width = sum(one.alpha_high - one.alpha_low for one in pooled)
    assert width["small"] > 1.2 * width["large"]
    for one in pooled:
        low, alpha, high = one.loc[OTHER, ["alpha_low", "alpha", "alpha_high"]]
        assert low < 0.05 < alpha < 0.4 < high  # a group of which nothing is known


@pytest.mark.ci
def test_pooled_shares_are_better_than_separate_ones(estimated):
    errors = np.zeros(2)
    for seed in range(3):
        frame = genes(seed, various=True)
        pooled = estimated(frame)
        for name, own in frame.groupby("gene"):
            separate = estimated(own, by=False)
            errors += np.abs(np.array([pooled.alpha[name], separate]) - own.alpha.iloc[0])
    assert errors[0] < 0.7 * errors[1]


def test_a_shift_of_a_group_is_not_taken_for_positives(estimated):
    for seed in range(2):
        frame = genes(seed, various=True, shift=0.4)
        truth = frame.groupby("gene")[["alpha", "moved"]].first()
        pooled = estimated(frame).loc[truth.index]
        assert np.corrcoef(pooled["shift"], truth.moved)[0, 1] > 0.6
        assert (pooled.alpha - truth.alpha).abs().mean() < 0.07


def test_groups_whose_scores_contradict_the_others_are_named(tables, punoise, tmp_path):
    """Among like genes one where negatives score as high as positives do elsewhere."""
    labeled, unlabeled = (pd.read_parquet(path) for path in tables[1::2])
    run = ("run", *tables, *BY, "--out-dir", tmp_path / "run")
    assert "groups-not-typical" not in punoise(*run).err
    for frame, path in ((labeled, tables[1]), (unlabeled, tables[3])):
        frame.assign(s=frame.s + 1.5 * (frame.gene == "G3")).to_parquet(path)
    said = punoise(*run).err
    (warning,) = (line for line in said.splitlines() if "groups-not-typical" in line)
    assert warning.endswith(": G3 [groups-not-typical]")
    assert "groups-not-typical" in (tmp_path / "run" / "report.html").read_text()
    scores = ("--scores", tmp_path / "run" / "scores.parquet", "--by", "gene")
    out = ("--groups-out", tmp_path / "g.tsv", "--out", tmp_path / "p.json")
    assert warning in punoise("estimate-prior", *scores, *out).err
    p = pd.read_csv(tmp_path / "g.tsv", sep="\t", index_col="group").p_typical
    assert p["G3"] < 1e-6
    assert p.drop("G3").min() > 1e-3
    punoise("estimate-prior", *scores, *out, "--strict", expect=4)


def test_labeled_negatives_give_the_same_shares(estimated):
    pooled = estimated(genes(2, labeled_share=0.02), "--labeled-are", "negatives")
    assert abs(pooled.alpha["large"] - 0.5) < 0.06
    assert np.mean([abs(pooled.alpha[f"G{i}"] - 0.05) for i in range(8)]) < 0.04


@pytest.fixture
def posteriors(punoise, tmp_path):
    """A function that writes scores and gives their posteriors, with groups or without."""

    def call(frame: pd.DataFrame, *more: object) -> pd.DataFrame:
        frame.to_parquet(tmp_path / "scores.parquet")
        scores, prior = ("--scores", tmp_path / "scores.parquet"), tmp_path / "prior.json"
        if not more:
            punoise("estimate-prior", *scores, "--out", prior)
        out = tmp_path / "posterior.parquet"
        punoise("posterior", *scores, "--prior", prior, *more, "--bounds", "--out", out)
        return pd.read_parquet(out)

    return call


def few_rows(
    seed: int, labeled: int, unlabeled: int, groups: int
) -> tuple[pd.DataFrame, pd.Series]:
    """Scores of which the labeled ones do not fit the others well, in random groups; classes."""
    rng = np.random.default_rng(seed)
    known = np.arange(labeled + unlabeled) < labeled
    y = np.where(known, rng.random(len(known)) < 0.95, rng.random(len(known)) < 0.3)
    score = rng.normal(size=len(known)) + rng.gamma(2.0, 0.7, size=len(known)) * y
    frame = pd.DataFrame({"id": np.arange(len(known)), "set": np.where(known, *SET_NAMES)})
    group = rng.integers(0, groups, len(known)).astype(str)
    return frame.assign(score=score, gene=group), pd.Series(y)


SET_NAMES = ("labeled", "unlabeled")
SMALL_SETS = [(200, 80), (40, 100), (60, 400), (300, 300)]


def test_random_groups_do_no_harm(posteriors, tmp_path):
    errors = np.zeros(2)
    for seed in range(4):
        frame, y = few_rows(100 + seed, *SMALL_SETS[seed % 4], 7)
        plain = posteriors(frame)
        grouped = posteriors(frame, "--by", "gene", "--groups-out", tmp_path / "g.tsv")
        unlabeled = (frame.set == "unlabeled").to_numpy()
        for i, table in enumerate((plain, grouped)):
            errors[i] += ((table.posterior - y)[unlabeled] ** 2).mean()
        found = pd.read_csv(tmp_path / "g.tsv", sep="\t", index_col="group", dtype={"group": str})
        mean = grouped.posterior[unlabeled].groupby(frame.gene).mean()
        np.testing.assert_allclose(mean, found.alpha[mean.index], atol=0.005)
    assert errors[1] < 1.02 * errors[0]


def test_rows_without_the_name_of_a_group_are_counted_as_others(estimated):
    frame = genes(3)
    unnamed = frame.gene.str.fullmatch("G[0-4]")
    frame["gene"] = frame.gene.replace({"G0": "NA", "G1": ".", "G2": "", "G3": None, "G4": OTHER})
    counted = estimated(frame)
    assert set(counted.index) == {"large", "small", "G5", "G6", "G7", OTHER}
    assert counted.n_unlabeled[OTHER] == (unnamed & (frame.known == 0)).sum()
    assert counted.n_labeled[OTHER] == (unnamed & (frame.known == 1)).sum()


# ---- Commands


def test_run_is_the_chain_of_single_commands(ran, tables, punoise, tmp_path):
    out = ran / "tsv"
    scores, prior = ("--scores", out / "scores.tsv"), ("--prior", out / "prior.json")
    to = ("--groups-out", tmp_path / "g.tsv")
    punoise("estimate-prior", *scores, "--by", "gene", *to, "--out", tmp_path / "p.json")
    direct = ("--groups-out", tmp_path / "d.tsv")
    punoise("estimate-prior", *tables, *BY, *direct, "--out", tmp_path / "q.json")
    assert (tmp_path / "p.json").read_bytes() == (out / "prior.json").read_bytes()
    estimated = (tmp_path / "g.tsv").read_text()
    assert (tmp_path / "d.tsv").read_text() == estimated
    assert (out / "groups.tsv").read_text() == estimated
    for more in ([], ["--groups", tmp_path / "g.tsv"]):
        again = ("--groups-out", tmp_path / "again.tsv", "--out", tmp_path / "post.tsv")
        punoise("posterior", *scores, *prior, "--by", "gene", *more, *again)
        assert (tmp_path / "again.tsv").read_text() == estimated
        assert (tmp_path / "post.tsv").read_bytes() == (out / "posterior.tsv").read_bytes()
    assert "Largest groups" in (out / "report.html").read_text()


def test_each_row_has_the_posterior_of_its_group(ran, tables, punoise, tmp_path):
    punoise("run", *tables, "--score-column", "s", "--out-dir", tmp_path / "whole")
    rows = pd.read_parquet(ran / "parquet" / "posterior.parquet")
    found = pd.read_parquet(ran / "parquet" / "groups.parquet").set_index("group")
    assert found.index[-1] == OTHER
    assert found.index[:-1].is_monotonic_increasing
    assert found.n_unlabeled.sum() == 4420
    assert found.n_negatives.sum() == 0
    alpha = json.loads((ran / "parquet" / "prior.json").read_text())["alpha"]
    group = rows.gene.replace("", OTHER)
    prior_odds = alpha / (1 - alpha) * np.exp(group.map(found.log_odds).to_numpy())
    bayes = prior_odds * rows.lr / (prior_odds * rows.lr + 1)
    np.testing.assert_allclose(rows.posterior, bayes, rtol=1e-9)
    mean = rows.posterior[rows.set == "unlabeled"].groupby(group).mean()
    np.testing.assert_allclose(mean[found.index], found.alpha, atol=0.005)
    assert abs(found.alpha @ found.n_unlabeled / 4420 - alpha) < 1e-6
    for name, mine in rows[rows.set == "unlabeled"].groupby("gene"):
        ranked = mine.sort_values("score")
        assert (np.diff(ranked.posterior) >= 0).all()
        assert (np.diff(ranked.fdr) <= 1e-12).all()
        begins = found.PP3_Supporting[name or OTHER]
        assert (mine.score[mine.evidence == "pathogenic_supporting"] >= begins).all()
        stronger = mine.evidence.str.startswith("pathogenic")
        assert not stronger[mine.score < begins].any()
    truth = genes(1)
    unlabeled = (truth.known == 0).to_numpy()
    plain = pd.read_parquet(tmp_path / "whole" / "posterior.parquet").posterior
    brier = [((p - truth.y) ** 2)[unlabeled].mean() for p in (rows.posterior, plain)]
    assert brier[0] < 0.9 * brier[1]


def test_bounds_hold_the_posterior_and_calls_are_told(ran, punoise, tmp_path):
    out = ran / "parquet"
    given = ("--scores", out / "scores.parquet", "--prior", out / "prior.json")
    wanted = ("--by", "gene", "--bounds", "--fdr", "0.1", "--out", tmp_path / "p.parquet")
    said = punoise("posterior", *given, *wanted).err
    rows = pd.read_parquet(tmp_path / "p.parquet")
    assert ((rows.posterior_low <= rows.posterior) & (rows.posterior <= rows.posterior_high)).all()
    assert (rows.call == (rows.fdr <= 0.1)).all()
    called = rows.call[rows.set == "unlabeled"].sum()
    assert f"{called} unlabeled rows" in said
    assert called > 100


NONE = ("log_odds", "log_odds_error", "shift", "shrinkage")
SAME = {**dict.fromkeys(NONE, 0.0), "p_typical": 1.0}  # as the whole


def write_groups(path: Path, **columns: list[object]) -> pd.DataFrame:
    """A table of groups as --groups-out writes it."""
    table = pd.DataFrame({"group": columns["group"], "n_labeled": 1, "n_unlabeled": 1})
    table = table.assign(n_negatives=1, **{k: v for k, v in columns.items() if k != "group"})
    table.to_csv(path, sep="\t", index=False)
    return table


def test_bounds_hold_the_posterior_where_the_share_of_a_group_is_certain(scores, punoise, tmp_path):
    certain = {"alpha": [0.2], "alpha_low": [0.2], "alpha_high": [0.2], **SAME}
    write_groups(tmp_path / "g.tsv", group=[OTHER], **certain)
    given = ("--scores", scores, "--alpha", "0.2", "--by", "id", "--groups", tmp_path / "g.tsv")
    punoise("posterior", *given, "--bounds", "--out", tmp_path / "p.tsv")
    rows = pd.read_csv(tmp_path / "p.tsv", sep="\t")
    assert ((rows.posterior_low <= rows.posterior) & (rows.posterior <= rows.posterior_high)).all()
    assert (rows.posterior_low < rows.posterior).any()


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "provenance.json"
    }


def test_shards_and_threads_give_the_same(tables, punoise, tmp_path):
    shards = [*tables[:3], f"{tmp_path}/u", *BY, "--shards"]
    punoise("calibrate", *shards, "--out-dir", tmp_path / "a")
    punoise("calibrate", *shards, "--out-dir", tmp_path / "b", "--threads", "2")
    assert contents(tmp_path / "b") == contents(tmp_path / "a")


def test_a_part_of_the_scores_takes_the_groups_of_all(ran, punoise, tmp_path):
    out = ran / "tsv"
    sketch_scores(out / "scores.tsv", tmp_path / "all.sketch")
    header, *lines = (out / "scores.tsv").read_text().splitlines(keepends=True)
    (tmp_path / "part.tsv").write_text("".join([header, *lines[3000:3500]]))
    given = ["posterior", "--scores", tmp_path / "part.tsv", "--prior", out / "prior.json"]
    given += ["--sketch", tmp_path / "all.sketch", "--by", "gene"]
    given += ["--out", tmp_path / "post.tsv"]
    assert "--groups" in punoise(*given, expect=2).err
    punoise(*given, "--groups", out / "groups.tsv")
    whole = (out / "posterior.tsv").read_text().splitlines()
    assert (tmp_path / "post.tsv").read_text().splitlines() == [whole[0], *whole[3001:3501]]


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (["--by", "none"], 3, "'none'"),
        (["--by", "gene", "--target-alpha", "0.1"], 2, "--target-alpha"),
        (["--by", "s"], 2, "score"),
        (["--by", "gene", "--alpha", "0.2", "--strict"], 0, ""),
    ],
)
def test_what_run_takes(tables, punoise, tmp_path, more, code, said):
    run = ("run", *tables, "--score-column", "s", "--out-dir", tmp_path / "run")
    assert said in punoise(*run, *more, expect=code).err


@pytest.mark.parametrize(
    ("command", "more", "code", "said"),
    [
        ("estimate-prior", ["--by", "gene"], 2, "--groups-out"),
        ("estimate-prior", ["--groups-out", "g.tsv"], 2, "--by"),
        ("estimate-prior", ["--by", "x", "--groups-out", "g.tsv"], 3, "'x'"),
        ("estimate-prior", ["--by", "set", "--groups-out", "g.tsv"], 2, "labels"),
        ("posterior", ["--groups", "g.tsv"], 2, "--by"),
    ],
)
def test_what_does_not_go_together_is_said(scores, punoise, tmp_path, command, more, code, said):
    given = [command, "--scores", scores, "--out", tmp_path / "out.tsv"]
    if command == "posterior":
        given += ["--alpha", "0.3"]
    assert said in punoise(*given, *more, expect=code).err


def test_scores_that_say_nothing_say_nothing_of_groups(scores, punoise, tmp_path):
    given = ("posterior", "--scores", scores, "--alpha", 0, "--by", "id", "--out")
    said = punoise(*given, tmp_path / "out.tsv", expect=4).err
    assert "alpha of 0" in said
    assert not (tmp_path / "out.tsv").exists()


def test_a_sketch_knows_of_no_groups(scores, punoise, tmp_path):
    sketch_scores(scores, tmp_path / "s.sketch")
    given = ("--sketch", tmp_path / "s.sketch", "--by", "gene", "--groups-out", tmp_path / "g.tsv")
    assert "group" in punoise("estimate-prior", *given, expect=2).err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda frame: frame[:-1], "(other)"),
        (lambda frame: pd.concat([frame, frame[:1]]), "once"),
        (lambda frame: frame.assign(alpha=1.5), "alpha"),
        (lambda frame: frame.assign(alpha_low=np.nan), "alpha"),
        (lambda frame: frame.drop(columns="shift"), "no column 'shift'"),
        (lambda frame: frame.assign(shift="far"), "'far'"),
    ],
)
def test_damaged_tables_of_groups_are_refused(scores, punoise, tmp_path, change, said):
    ends = {"alpha_low": [0.1, 0.2], "alpha_high": [0.3, 0.4], **SAME}
    table = write_groups(tmp_path / "g.tsv", group=["a", OTHER], alpha=[0.2, 0.3], **ends)
    path = tmp_path / "changed.tsv"
    change(table).to_csv(path, sep="\t", index=False)
    given = ("--scores", scores, "--alpha", "0.3", "--by", "id", "--out", tmp_path / "p.tsv")
    assert said in punoise("posterior", *given, "--groups", path, expect=3).err
    punoise("posterior", *given, "--groups", tmp_path / "g.tsv")


def test_too_many_groups_are_an_error_that_asks_about_ids(punoise, tmp_path):
    rng = np.random.default_rng(0)
    known = np.arange(40_000) < 500
    frame = pd.DataFrame({"s": rng.normal(size=40_000) + known, "known": known})
    table = ("--table", tmp_path / "t.parquet", "--label-column", "known")
    for genes in (frame.index, "g" + frame.index.astype(str)):
        frame.assign(gene=genes).to_parquet(tmp_path / "t.parquet")
        error = punoise("run", *table, *BY, "--out-dir", tmp_path / "out", expect=3).err
        assert "gene" in error
        assert "id" in error


def test_rows_without_a_score_have_no_posterior_and_count_nowhere(punoise, tmp_path):
    frame = genes(1).drop(columns=["y", "alpha", "moved"])
    frame.loc[::50, "s"] = np.nan
    frame.to_csv(tmp_path / "t.csv", index=False)
    table = ("--table", tmp_path / "t.csv", "--label-column", "known", *BY)
    punoise("calibrate", *table, "--missing-score", "skip", "--out-dir", tmp_path / "run")
    rows = pd.read_parquet(tmp_path / "run" / "posterior.parquet")
    gaps = frame.s.isna().to_numpy()
    for column in ("posterior", "lr", "fdr", "evidence"):
        np.testing.assert_array_equal(rows[column].isna(), gaps)
    found = pd.read_parquet(tmp_path / "run" / "groups.parquet")
    assert found.n_unlabeled.sum() == ((frame.known == 0) & ~gaps).sum()
