"""Rows to verify: how they are drawn, what their verdicts say, and what is wrong with them."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import normals, validated
from scipy.stats import hypergeom

from pu_noise_cli.audit.verdicts import Verified


def test_several_strata_give_the_quantiles_of_a_sum_of_betas():
    rows, n, k = np.array([(7_000_000, 20, 0), (2_000_000, 40, 3), (1_000_000, 40, 30)]).T
    rng = np.random.default_rng(0)
    counted = np.array([1, 1 - 0.5 / 40, 1 - 0.5 / 40])  # where both kinds were seen
    drawn = rng.beta(counted * k + 1 / 3, counted * (n - k), (200_000, 3))
    high = np.quantile(drawn @ rows / rows.sum(), 0.975)
    verified = Verified(rows, n, k)
    assert verified.interval()[1] == pytest.approx(high, abs=5e-4)
    assert verified.interval()[0] < verified.estimate() < verified.interval()[1]
    draws = verified.draws(200)
    assert draws.mean() == pytest.approx(verified.estimate(), abs=1e-3)
    assert (np.diff(draws) >= 0).all()


# ---- The commands


@pytest.fixture
def prior(punoise, scores, tmp_path) -> str:
    path = str(tmp_path / "prior.json")
    punoise("estimate-prior", "--scores", scores, "--out", path)
    return path


@pytest.fixture
def drawn(punoise, scores, prior, tmp_path):
    """Draw an audit, and fill in the truth: rows up to r189 are positive (labeled ones, too)."""

    def draw(*options: object, name: str = "audit.tsv", rows: int = 60) -> tuple[str, pd.DataFrame]:
        path = str(tmp_path / name)
        source = ("--scores", scores, "--prior", prior)
        punoise("audit", *source, "--rows", rows, *options, "--out", path)
        audit = pd.read_csv(path, sep="\t", dtype={"verdict": object})
        assert audit["verdict"].isna().all()
        audit["verdict"] = np.where(audit["id"].str[1:].astype(int) < 190, "yes", "No")
        audit.to_csv(path, sep="\t", index=False)
        return path, audit

    return draw


def test_rows_are_drawn_at_random_within_strata(drawn, punoise, scores, prior, tmp_path):
    _, audit = drawn("--labeled-rows", 20)
    assert audit["set"].value_counts().to_dict() == {"unlabeled": 60, "labeled": 20}
    assert audit["weight"].groupby(audit["set"]).sum().round(6).to_dict() == {
        "labeled": 100,
        "unlabeled": 300,
    }
    table = pd.read_csv(scores, sep="\t")
    assert (table["id"][audit["row"] - 1].to_numpy() == audit["id"]).all()
    assert audit["row"].is_monotonic_increasing
    again = str(tmp_path / "again.tsv")
    source = ("audit", "--scores", scores, "--prior", prior, "--rows", 60, "--out", again)
    punoise(*source, "--labeled-rows", 20, "--threads", 2)
    assert pd.read_csv(again, sep="\t")["row"].tolist() == audit["row"].tolist()
    punoise(*source, "--labeled-rows", 20, "--seed", 1)
    assert pd.read_csv(again, sep="\t")["row"].tolist() != audit["row"].tolist()


def test_verdicts_are_not_written_over(drawn, punoise, scores, prior, tmp_path):
    path, _ = drawn()
    filled_in = Path(path).read_bytes()
    again = ("audit", "--scores", scores, "--prior", prior, "--out")
    assert "verdicts" in punoise(*again, path, expect=2).err
    assert Path(path).read_bytes() == filled_in
    other = tmp_path / "other.tsv"
    for content in ("", "verdict\n", "a\tb\n1\t2\n"):  # no audit, or one without verdicts
        other.write_text(content)
        punoise(*again, other)
    punoise(*again, other)


def test_the_width_is_told_beforehand(punoise, scores, prior, tmp_path):
    """By `audit` and, if it is worth it, by `estimate-prior` with the command to type."""
    out = ("--out", tmp_path / "a.csv")
    said = punoise("audit", "--scores", scores, "--prior", prior, "--labeled-rows", 12, *out).err
    width, now = re.search(r"of alpha .* ([\d.]+) after 100.*\(now ([\d.]+)\)", said).groups()
    assert "interval of beta" in said
    low, high = json.loads(Path(prior).read_text())["alpha_ci"]
    assert float(now) == pytest.approx(100 * (high - low), abs=0.06)
    assert float(width) < 0.75 * float(now)
    said = punoise("estimate-prior", "--scores", scores, "--out", tmp_path / "again.json").err
    (step,) = (line for line in said.splitlines() if line.startswith("next   verify"))
    points, command = re.search(r"±(\d+) percentage points: punoise (.*)", step).groups()
    assert int(points) == round(float(width) / 2)
    punoise(*shlex.split(command)[:-1], tmp_path / "typed.tsv")


def test_no_step_is_advised_that_hardly_narrows_the_interval(punoise, tmp_path):
    """100 verdicts on 10,000 rows cannot improve on classes that stand well apart."""
    labeled, unlabeled = normals(0.3, 1.0, 2000, 10_000, seed=1, separation=6)
    frame = pd.DataFrame({"score": np.concatenate([labeled, unlabeled])})
    frame["set"] = ["labeled"] * 2000 + ["unlabeled"] * 10_000
    frame.assign(id=range(12_000)).to_csv(tmp_path / "s.csv", index=False)
    said = punoise("estimate-prior", "--scores", tmp_path / "s.csv")
    assert np.ptp(said.prior["alpha_ci"]) < 0.15
    assert "next " not in said.err


def test_verified_rows_rule_where_they_contradict_the_limit(punoise, tmp_path):
    """Only easy positives are labeled, so scores alone allow half of the true alpha at most."""
    rng = np.random.default_rng(4)
    labeled, easy, hard, negative = (
        rng.normal(mean, size=n) for mean, n in ((4, 150), (4, 300), (1, 300), (0, 2400))
    )
    truth = np.repeat([1, 0], [600, 2400])
    frame = pd.DataFrame({"score": np.concatenate([labeled, easy, hard, negative])})
    frame["set"] = ["labeled"] * 150 + ["unlabeled"] * 3000
    frame.assign(id=range(3150)).to_csv(tmp_path / "s.csv", index=False)
    scores, prior = ("--scores", tmp_path / "s.csv"), tmp_path / "p.json"
    punoise("estimate-prior", *scores, "--out", prior)
    by_scores = json.loads(prior.read_text())
    assert max(by_scores["alpha_ci"][1], by_scores["alpha_max"]) < 0.2
    audit = tmp_path / "a.csv"
    punoise("audit", *scores, "--prior", prior, "--rows", 400, "--out", audit)
    drawn = pd.read_csv(audit)
    verdict = np.where(truth[drawn["row"] - 151], "yes", "no")
    drawn.assign(verdict=verdict).to_csv(audit, index=False)
    said = punoise("estimate-prior", *scores, "--verdicts", audit)
    found = said.prior
    assert found["alpha_ci"][0] > by_scores["alpha_max"]
    assert found["representative"] == "contradicted"
    for limit in ("alpha_max", "alpha_max_by_selection", "beta_min"):
        assert found[limit] is None
    assert "labels-not-representative" in [warning["code"] for warning in found["warnings"]]
    assert "labels-not-representative" in said.err
    assert "\nlimit " not in said.err


def test_verdicts_give_alpha_and_beta(drawn, punoise, scores, tmp_path):
    path, _ = drawn("--labeled-rows", 40, rows=120)
    said = punoise("estimate-prior", "--scores", scores, "--verdicts", path)
    found = said.prior
    assert (found["method"], found["n_verdicts"], found["n_negatives"]) == ("verdicts", 160, None)
    assert [entry["method"] for entry in found["estimates"]] == ["auto", "verdicts"]
    assert found["alpha_ci"][0] < 0.3 < found["alpha_ci"][1]
    assert np.ptp(found["alpha_ci"]) < 0.15
    assert found["beta_ci"][1] == 1  # every labeled row is positive
    assert found["assumed"] is None
    assert sum(stratum["verdicts"] for stratum in found["audit"]["strata"]) == 160
    assert len(found["draws"]) == 200
    alphas, betas = np.transpose(found["draws"])
    assert alphas.mean() == pytest.approx(found["alpha"], abs=0.003)
    assert betas.mean() == pytest.approx(found["beta"], abs=0.003)
    assert abs(np.corrcoef(alphas, betas)[0, 1]) < 0.2
    assert "consistent with" in said.err
    path = tmp_path / "verified.json"
    path.write_bytes(said.out)
    punoise("posterior", "--scores", scores, "--prior", path, "--bounds", "--out", "-")
    report = tmp_path / "report.html"
    punoise("report", "--scores", scores, "--prior", path, "--out", report)
    assert "Rows verified" in report.read_text()


def test_what_was_not_verified_follows_from_the_scores(drawn, punoise, scores):
    plain = punoise("estimate-prior", "--scores", scores).prior
    path, _ = drawn()
    found = punoise("estimate-prior", "--scores", scores, "--verdicts", path).prior
    assert np.ptp(found["alpha_ci"]) < np.ptp(plain["alpha_ci"])
    assert 0 < np.ptp(found["beta_ci"]) < 1
    path, _ = drawn("--labeled-rows", 60, name="labeled.tsv", rows=0)
    found = punoise("estimate-prior", "--scores", scores, "--verdicts", path).prior
    least = next(k for k in range(60, 101) if hypergeom.sf(59, 100, k, 60) > 0.025)
    assert found["beta_ci"] == [pytest.approx(least / 100, abs=0.011), 1]  # one row, by strata
    assert found["alpha_ci"][0] < found["alpha"] < found["alpha_ci"][1]
    assert found["assumed"] is not None  # alpha still rests on it


def test_unsure_rows_count_for_nothing_and_all_no_is_an_answer(drawn, punoise, scores):
    path, audit = drawn()
    audit["verdict"] = "0"
    audit.loc[::10, "verdict"] = ""
    audit.loc[::20, "verdict"] = "?"
    audit.to_csv(path, sep="\t", index=False)
    said = punoise("estimate-prior", "--scores", scores, "--verdicts", path)
    assert said.prior["n_verdicts"] == 54
    assert f"punoise posterior --scores {scores} --prior" in said.err
    assert said.prior["alpha_ci"][0] == 0
    assert 0 < said.prior["alpha"] < said.prior["alpha_ci"][1] < 0.15
    codes = {warning["code"] for warning in said.prior["warnings"]}
    assert "posteriors-not-calibrated" in codes
    assert "contradicting the posteriors" in said.err


def test_audits_add_up(drawn, punoise, scores):
    first, one = drawn()
    second, two = drawn("--verdicts", first, name="second.tsv")
    assert not set(one["row"]) & set(two["row"])
    options = ("--verdicts", first, "--verdicts", second)
    both = punoise("estimate-prior", "--scores", scores, *options).prior
    alone = punoise("estimate-prior", "--scores", scores, "--verdicts", first).prior
    assert both["n_verdicts"] == 120
    assert np.ptp(both["alpha_ci"]) < 0.85 * np.ptp(alone["alpha_ci"])
    copied = ("--verdicts", first, "--verdicts", second)
    one.to_csv(second, sep="\t", index=False)
    twice = punoise("estimate-prior", "--scores", scores, *copied).prior
    assert (twice["alpha_ci"], twice["n_verdicts"]) == (alone["alpha_ci"], 60)
    named = ("--verdicts", first, "--verdicts", first)
    assert "named twice" in punoise("estimate-prior", "--scores", scores, *named, expect=2).err
    one["verdict"] = "no"
    one.to_csv(second, sep="\t", index=False)
    said = punoise("estimate-prior", "--scores", scores, *copied, expect=3).err
    assert "contradicts" in said


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("positive", "beta"), [(100, 1.0), (0, 0.0)])
def test_labels_that_are_all_verified_give_beta_exactly(positive, beta, drawn, punoise, scores):
    path, audit = drawn("--labeled-rows", 100, rows=300)
    place = audit["id"].str[1:].astype(int)
    audit["verdict"] = np.where((audit["set"] == "labeled") & (place < positive), "yes", "no")
    audit.to_csv(path, sep="\t", index=False)
    found = punoise("estimate-prior", "--scores", scores, "--verdicts", path).prior
    assert (found["alpha"], found["alpha_ci"]) == (0, [0, 0])
    assert (found["beta"], found["beta_ci"]) == (beta, [beta, beta])


def test_audits_go_on_until_no_row_is_left(drawn, punoise, scores, prior, tmp_path):
    first, one = drawn(rows=290)
    second, two = drawn("--verdicts", first, name="second.tsv", rows=100)
    assert (len(one), len(two)) == (290, 10)
    options = ("--verdicts", first, "--verdicts", second)
    found = punoise("estimate-prior", "--scores", scores, *options).prior
    assert found["n_verdicts"] == 300
    assert found["alpha"] == 0.3
    assert found["alpha_ci"] == [0.3, 0.3]
    assert {alpha for alpha, _ in found["draws"]} == {0.3}
    source = ("audit", "--scores", scores, "--prior", prior, "--out", tmp_path / "x.tsv")
    assert "drawn before" in punoise(*source, *options, expect=3).err
    assert "--rows" in punoise(*source, "--rows", 3, expect=2).err


def test_audits_of_other_strata_do_not_add_up(drawn, punoise, scores, prior, tmp_path):
    first, _ = drawn()
    document = json.loads(Path(prior).read_text())
    document |= {"alpha": 0.05, "beta": 0.9, "draws": [[0.05, 0.9]]}
    other = tmp_path / "other.json"
    other.write_text(json.dumps(document))
    source = ("audit", "--scores", scores, "--prior", other)
    said = punoise(*source, "--verdicts", first, "--out", tmp_path / "x.tsv", expect=3).err
    assert "another prior" in said
    punoise(*source, "--seed", 9, "--rows", 30, "--out", tmp_path / "x.tsv")
    options = ("--verdicts", first, "--verdicts", tmp_path / "x.tsv")
    said = punoise("estimate-prior", "--scores", scores, *options, expect=3).err
    assert "other strata" in said


def test_rows_are_found_by_number_where_ids_repeat(drawn, punoise, scores):
    path, audit = drawn()
    table = pd.read_csv(scores, sep="\t")
    table["id"] = "same"
    table.to_csv(scores, sep="\t", index=False)
    audit["id"] = "same"
    audit.sample(frac=1, random_state=1).to_csv(path, sep="\t", index=False)
    found = punoise("estimate-prior", "--scores", scores, "--verdicts", path).prior
    assert found["n_verdicts"] == 60
    audit.drop(columns="row").to_csv(path, sep="\t", index=False)
    said = punoise("estimate-prior", "--scores", scores, "--verdicts", path, expect=3).err
    assert "'same'" in said


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("id", "nobody", "'nobody'"),
        ("set", "labeled", "no labeled row"),
        ("set", "both", "'both' in row 1"),
        ("set", "negative", "'negative' in row 1"),
        ("verdict", "maybe", "'maybe' in row 1"),
        ("stratum", "x", "'x' in row 1"),
        ("stratum", "1e12", "'1e12' in row 1"),
        ("weight", "0", "'0' in row 1"),
    ],
)
def test_what_is_wrong_with_a_verdict_is_told(column, value, said, drawn, punoise, scores):
    path, audit = drawn()
    audit = audit.astype(object)
    audit.loc[0, column] = value
    audit.to_csv(path, sep="\t", index=False)
    assert said in punoise("estimate-prior", "--scores", scores, "--verdicts", path, expect=3).err


def test_rows_that_were_left_out_are_missed(drawn, punoise, scores):
    path, audit = drawn()
    audit.iloc[:-9].to_csv(path, sep="\t", index=False)
    said = punoise("estimate-prior", "--scores", scores, "--verdicts", path, expect=3).err
    assert "all rows" in said
    audit.assign(verdict="").to_csv(path, sep="\t", index=False)
    said = punoise("estimate-prior", "--scores", scores, "--verdicts", path, expect=3).err
    assert "verdict" in said


def test_columns_of_the_tables_stand_beside_the_rows(punoise, frames, tables, tmp_path):
    source = ("--score-column", "a")
    scores, prior, out = (str(tmp_path / name) for name in ("s.parquet", "p.json", "audit.csv"))
    punoise("transform", *tables, *source, "--out", scores)
    punoise("estimate-prior", "--scores", scores, "--out", prior)
    audit = ("audit", "--scores", scores, "--prior", prior, "--labeled-rows", 30, "--out", out)
    punoise(*audit, *tables, "--keep-columns", "b,c")
    found = pd.read_csv(out)
    whole = pd.concat(frames, ignore_index=True)
    assert found["b"].tolist() == whole["b"][found["row"] - 1].tolist()
    assert list(found.columns[-3:]) == ["row", "b", "c"]
    assert "no column 'z'" in punoise(*audit, *tables, "--keep-columns", "z", expect=3).err
    assert "--keep-columns" in punoise(*audit, *tables, expect=2).err
    swapped = ("--labeled", tables[1], "--unlabeled", tables[1], "--keep-columns", "b")
    assert "as many as" in punoise(*audit, *swapped, expect=3).err
    assert "'score'" in punoise(*audit, "--keep-columns", "score", expect=2).err


def test_verdicts_need_scores_and_the_default_method(drawn, punoise, scores, tables):
    path, _ = drawn("--labeled-rows", 30)
    verdicts = ("--verdicts", path)
    assert "--scores" in punoise("estimate-prior", *tables, *verdicts, expect=2).err
    source = ("estimate-prior", "--scores", scores, *verdicts)
    assert "--method" in punoise(*source, "--method", "msgmm", expect=2).err
    assert "--beta" in punoise(*source, "--beta", 0.9, expect=2).err


def test_documents_without_an_audit_are_still_read(punoise, scores, prior, tmp_path):
    document = json.loads(Path(prior).read_text())
    for key in ("audit", "n_verdicts", "n_negatives"):
        assert document.pop(key) is None
    old = tmp_path / "old.json"
    old.write_text(json.dumps(document))
    punoise("posterior", "--scores", scores, "--prior", old, "--out", tmp_path / "p.tsv")
    validated(json.loads(Path(prior).read_text()))


# Known negatives


@pytest.fixture
def negatives(scores, tmp_path) -> str:
    """The scores with 200 known negatives more, whose ids are those of unlabeled rows."""
    table = pd.read_csv(scores, sep="\t")
    score = np.random.default_rng(4).beta(2, 5, 200)
    known = pd.DataFrame({"id": table["id"][100:300], "set": "negative", "score": score})
    path = str(tmp_path / "three.tsv")
    # before the others, between them and after: that is how one table may have them
    parts = [known[:50], table[:250], known[50:100], table[250:], known[100:]]
    pd.concat(parts).to_csv(path, sep="\t", index=False)
    return path


def test_known_negatives_are_neither_drawn_nor_counted(punoise, negatives, tmp_path):
    source, prior = ("--scores", negatives), str(tmp_path / "p.json")
    punoise("estimate-prior", *source, "--out", prior)
    path = str(tmp_path / "audit.tsv")
    many = ("--rows", 290, "--labeled-rows", 90, "--out", path)
    punoise("audit", *source, "--prior", prior, *many)
    audit = pd.read_csv(path, sep="\t", dtype={"verdict": object})
    assert audit["set"].value_counts().to_dict() == {"unlabeled": 290, "labeled": 90}
    assert audit["weight"].groupby(audit["set"]).sum().round(6).to_dict() == {
        "labeled": 100,
        "unlabeled": 300,
    }
    table = pd.read_csv(negatives, sep="\t")
    there = table.iloc[audit["row"] - 1]
    assert (there["set"].to_numpy() == audit["set"]).all()
    assert (there["id"].to_numpy() == audit["id"]).all()
    audit["verdict"] = np.where(audit["id"].str[1:].astype(int) < 190, "yes", "no")
    # without its number a row is found by its id, which a known negative may have as well
    audit.drop(columns="row").to_csv(path, sep="\t", index=False)
    found = punoise("estimate-prior", *source, "--verdicts", path).prior
    assert found["n_verdicts"] == 380
    assert found["n_negatives"] == 200
    assert found["alpha"] == pytest.approx(0.3, abs=0.02)


def test_columns_stand_beside_the_rows_of_three_tables(punoise, frames, tables, tmp_path):
    labeled, unlabeled = frames
    known = unlabeled.iloc[200:].assign(b=0.0)
    known.to_csv(tmp_path / "negatives.csv", index=False)
    three = (*tables, "--negatives", tmp_path / "negatives.csv")
    scores, prior, out = (str(tmp_path / name) for name in ("s.parquet", "p.json", "audit.csv"))
    punoise("transform", *three, "--score-column", "a", "--out", scores)
    punoise("estimate-prior", "--scores", scores, "--out", prior)
    audit = ("audit", "--scores", scores, "--prior", prior, "--labeled-rows", 30, "--out", out)
    punoise(*audit, *three, "--keep-columns", "a,b")
    found = pd.read_csv(out)
    assert found["a"].tolist() == pytest.approx(found["score"].tolist())
    for name, frame in (("labeled", labeled), ("unlabeled", unlabeled)):
        assert set(found["b"][found["set"] == name]) <= set(frame["b"])
    said = punoise(*audit, *tables, "--keep-columns", "b", expect=3).err
    assert "550 rows" in said


# Labeled negatives


def test_verdicts_of_labeled_negatives_point_to_positives(drawn, punoise, scores, tmp_path):
    """The same rows, scored and labeled the other way round: what was positive is negative."""
    path, audit = drawn("--labeled-rows", 30, rows=150)
    audit.loc[audit["set"] == "labeled", "verdict"] = ["no"] * 3 + ["yes"] * 27
    audit.to_csv(path, sep="\t", index=False)
    plain = punoise("estimate-prior", "--scores", scores, "--verdicts", path).prior
    table, turned = pd.read_csv(scores, sep="\t"), str(tmp_path / "turned.tsv")
    table.assign(score=1 - table["score"]).to_csv(turned, sep="\t", index=False)
    source = ("--scores", turned, "--labeled-are", "negatives")
    audit["posterior"] = 1 - audit["posterior"]
    audit["verdict"] = audit["verdict"].str.lower().map({"yes": "no", "no": "yes"})
    audit.to_csv(path, sep="\t", index=False)
    found = punoise("estimate-prior", *source, "--verdicts", path, "--out", tmp_path / "v.json")
    assert "150 verified unlabeled rows" in found.err
    prior = json.loads((tmp_path / "v.json").read_text())
    assert prior["alpha"] == pytest.approx(1 - plain["alpha"])
    assert prior["alpha_ci"] == pytest.approx([1 - end for end in reversed(plain["alpha_ci"])])
    assert prior["beta"] == pytest.approx(plain["beta"])
    assert prior["beta_ci"] == pytest.approx(plain["beta_ci"])
    for ours, theirs in zip(prior["audit"]["strata"], plain["audit"]["strata"], strict=True):
        assert ours["positive"] == theirs["verdicts"] - theirs["positive"]
        assert ours["expected"] == pytest.approx(theirs["verdicts"] - theirs["expected"], abs=1e-5)
    punoise(
        "audit", "--scores", turned, "--prior", tmp_path / "v.json", "--out", tmp_path / "b.tsv"
    )


# ---- The top


RARE = 0.02


@pytest.fixture
def rare(tmp_path) -> str:
    """A SCORES file of 300 labeled and 4,000 unlabeled rows, of which 80 are positive."""
    labeled, unlabeled = normals(RARE, 0.95, 300, 4000, seed=5, separation=1.6)
    ids = [f"{name}{i}" for name, n in (("l", 300), ("u", 4000)) for i in range(n)]
    sets = ["labeled"] * 300 + ["unlabeled"] * 4000
    score = np.concatenate([labeled, unlabeled])
    path = str(tmp_path / "rare.tsv")
    pd.DataFrame({"id": ids, "set": sets, "score": score}).to_csv(path, sep="\t", index=False)
    return path


def is_positive(ids: pd.Series) -> np.ndarray:
    number = ids.str[1:].astype(int)
    return np.where(ids.str[0] == "u", number < 80, number < 285)


@pytest.fixture
def at_top(punoise, rare, tmp_path):
    """Draw rows at the top, and fill in the truth."""
    plain = str(tmp_path / "plain.json")
    punoise("estimate-prior", "--scores", rare, "--out", plain)

    def draw(*options: object, name: str = "top.tsv", rows: int = 20) -> tuple[str, pd.DataFrame]:
        path = str(tmp_path / name)
        source = ("--scores", rare, "--prior", plain)
        punoise("audit", *source, "--top", "--rows", rows, *options, "--out", path)
        audit = pd.read_csv(path, sep="\t", dtype={"verdict": object, "stratum": str})
        audit["verdict"] = np.where(is_positive(audit["id"]), "yes", "no")
        audit.to_csv(path, sep="\t", index=False)
        return path, audit

    return draw


def rows_at_top(scores: str) -> pd.DataFrame:
    """The unlabeled rows that score like the top fifth of the labeled rows."""
    table = pd.read_csv(scores, sep="\t")
    labeled = np.sort(table["score"][table["set"] == "labeled"])
    least = labeled[-int(np.ceil(0.2 * len(labeled)))]
    return table[(table["set"] == "unlabeled") & (table["score"] >= least)]


def test_rows_at_the_top_score_like_the_best_labeled_rows(at_top, rare):
    _, audit = at_top()
    top = rows_at_top(rare)
    assert set(audit["id"]) < set(top["id"])
    assert (len(audit), set(audit["stratum"]), set(audit["set"])) == (20, {"top"}, {"unlabeled"})
    assert audit["weight"].sum() == pytest.approx(len(top))
    assert audit["row"].is_monotonic_increasing
    _, all_of_them = at_top(name="all.tsv", rows=10_000)
    assert set(all_of_them["id"]) == set(top["id"])


def test_few_verdicts_at_the_top_narrow_alpha(at_top, punoise, rare, tmp_path):
    path, audit = at_top()
    plain = json.loads((tmp_path / "plain.json").read_text())
    said = punoise("estimate-prior", "--scores", rare, "--verdicts", path)
    found = said.prior
    assert np.ptp(found["alpha_ci"]) < 0.6 * np.ptp(plain["alpha_ci"])
    assert found["alpha_ci"][0] < RARE < found["alpha_ci"][1]
    assert abs(found["alpha"] - RARE) < abs(plain["alpha"] - RARE)
    assert (found["method"], found["n_verdicts"]) == ("verdicts", 20)
    positive = int((audit["verdict"] == "yes").sum())
    assert found["assumed"]["purity"] == 0
    assert found["assumed"]["sensitivity"] == []
    assert f"{positive} of 20 verified" in found["assumed"]["words"]
    (stratum,) = found["audit"]["strata"]
    top = len(rows_at_top(rare))
    assert (stratum["set"], stratum["rows"], stratum["positive"]) == ("top", top, positive)
    assert f"{positive} of 20 verified top" in said.err
    alphas, betas = np.transpose(found["draws"])
    assert found["alpha_ci"][0] < np.quantile(alphas, 0.05)
    assert len(set(betas)) > 20
    prior, report = tmp_path / "verified.json", tmp_path / "report.html"
    prior.write_bytes(said.out)
    punoise("posterior", "--scores", rare, "--prior", prior, "--bounds", "--out", "-")
    punoise("report", "--scores", rare, "--prior", prior, "--out", report)
    assert f"{positive} of 20 verified" in report.read_text()


def test_more_positives_at_the_top_mean_more_of_them_in_all(at_top, punoise, rare):
    path, audit = at_top()
    alphas = []
    for positive in (0, 3, 10, 20):
        audit["verdict"] = ["yes"] * positive + ["no"] * (20 - positive)
        audit.to_csv(path, sep="\t", index=False)
        said = punoise("estimate-prior", "--scores", rare, "--verdicts", path)
        alphas.append(said.prior["alpha"])
    assert alphas == sorted(alphas)
    assert alphas[-1] > 5 * alphas[0]
    few = ("--alpha-between", 0, 0.01)  # far too few for 20 of 20
    said = punoise("estimate-prior", "--scores", rare, "--verdicts", path, *few)
    assert "posteriors-not-calibrated" in said.err


def test_the_width_after_verdicts_at_the_top_is_told_beforehand(punoise, rare, at_top, tmp_path):
    path, _ = at_top()
    source = ("audit", "--scores", rare, "--prior", tmp_path / "plain.json", "--top")
    said = punoise(*source, "--out", tmp_path / "other.tsv").err
    told = re.search(r": (.*) after 10, (.*) after 20, (.*) after 50 verdicts .*now (.*)\)", said)
    assert told is not None
    *after, now = (float(width) / 100 for width in told.groups())
    widths = [now, *after]
    assert widths == sorted(widths, reverse=True)
    found = punoise("estimate-prior", "--scores", rare, "--verdicts", path).prior
    assert widths[2] == pytest.approx(np.ptp(found["alpha_ci"]), rel=0.5)


def test_audits_of_the_top_add_up(at_top, punoise, rare, tmp_path):
    first, one = at_top()
    second, two = at_top("--verdicts", first, name="second.tsv", rows=30)
    assert not set(one["row"]) & set(two["row"])
    options = ("--verdicts", first, "--verdicts", second)
    both = punoise("estimate-prior", "--scores", rare, *options).prior
    assert both["n_verdicts"] == 50
    (stratum,) = both["audit"]["strata"]
    assert stratum["verdicts"] == 50
    alone = punoise("estimate-prior", "--scores", rare, "--verdicts", first).prior
    assert np.ptp(both["alpha_ci"]) < np.ptp(alone["alpha_ci"])
    again = ("audit", "--scores", rare, "--prior", tmp_path / "plain.json", "--top", "--out", first)
    assert "contains verdicts" in punoise(*again, expect=2).err
    one.to_csv(second, sep="\t", index=False)  # a copy counts once
    twice = punoise("estimate-prior", "--scores", rare, *options).prior
    assert (twice["n_verdicts"], twice["alpha_ci"]) == (20, alone["alpha_ci"])


def test_labeled_rows_can_be_verified_as_well(at_top, punoise, rare):
    path, audit = at_top("--labeled-rows", 40)
    assert audit["set"].value_counts().to_dict() == {"labeled": 40, "unlabeled": 20}
    assert set(audit["stratum"][audit["set"] == "unlabeled"]) == {"top"}
    found = punoise("estimate-prior", "--scores", rare, "--verdicts", path).prior
    assert found["n_verdicts"] == 60
    assert {stratum["set"] for stratum in found["audit"]["strata"]} == {"labeled", "top"}
    assert found["alpha_ci"][0] < RARE < found["alpha_ci"][1]
    assert found["beta_ci"][0] < 0.95 < found["beta_ci"][1]


def test_a_sample_of_all_rows_outweighs_the_top(at_top, punoise, rare, tmp_path):
    """Its interval of alpha assumes nothing; rows drawn in both ways count as one each."""
    top, one = at_top()
    path, plain = str(tmp_path / "strata.tsv"), tmp_path / "plain.json"
    punoise(
        "audit", "--scores", rare, "--prior", plain, "--verdicts", top, "--rows", 400, "--out", path
    )
    audit = pd.read_csv(path, sep="\t", dtype={"verdict": object})
    audit["verdict"] = np.where(is_positive(audit["id"]), "1", "0")
    audit.to_csv(path, sep="\t", index=False)
    alone = punoise("estimate-prior", "--scores", rare, "--verdicts", path).prior
    options = ("--verdicts", top, "--verdicts", path)
    both = punoise("estimate-prior", "--scores", rare, *options).prior
    assert both["alpha_ci"] == alone["alpha_ci"]
    assert both["assumed"] is None
    assert both["n_verdicts"] == len(set(audit["row"]) | set(one["row"])) < 420
    shared = one["row"].isin(audit["row"])
    one.loc[shared, "verdict"] = np.where(one["verdict"][shared] == "yes", "no", "yes")
    one.to_csv(top, sep="\t", index=False)
    assert "contradicts" in punoise("estimate-prior", "--scores", rare, *options, expect=3).err


def test_the_top_of_labeled_negatives_is_at_the_bottom(punoise, tmp_path):
    labeled, unlabeled = normals(0.6, 0.95, 300, 4000, seed=6, separation=1.2)
    scores, prior, path = (str(tmp_path / name) for name in ("s.tsv", "p.json", "top.tsv"))
    ids = [f"r{i}" for i in range(4300)]
    sets = ["labeled"] * 300 + ["unlabeled"] * 4000
    score = -np.concatenate([labeled, unlabeled])
    pd.DataFrame({"id": ids, "set": sets, "score": score}).to_csv(scores, sep="\t", index=False)
    source = ("--scores", scores, "--labeled-are", "negatives")
    punoise("estimate-prior", *source, "--out", prior)
    draw = ("audit", "--scores", scores, "--prior", prior, "--top", "--rows", 50)
    punoise(*draw, "--out", path)
    audit = pd.read_csv(path, sep="\t")
    assert (audit["score"] <= np.quantile(score[:300], 0.21)).all()
    negative = audit["row"] <= 300 + 2400
    audit["verdict"] = np.where(negative, "no", "yes")
    audit.to_csv(path, sep="\t", index=False)
    said = punoise("estimate-prior", *source, "--verdicts", path, "--out", tmp_path / "v.json")
    assert f"{50 - negative.sum()} of 50 verified bottom" in said.err
    found = validated(json.loads((tmp_path / "v.json").read_text()))
    assert f"{negative.sum()} of 50 verified" in found["assumed"]["words"]
    assert found["alpha_ci"][0] < 0.4 < found["alpha_ci"][1]
    without = json.loads(Path(prior).read_text())
    assert np.ptp(found["alpha_ci"]) < np.ptp(without["alpha_ci"])
    punoise(*draw, "--verdicts", path, "--out", tmp_path / "more.tsv")
    assert not set(pd.read_csv(tmp_path / "more.tsv", sep="\t")["row"]) & set(audit["row"])


def test_what_is_wrong_with_an_audit_of_the_top_is_told(at_top, punoise, rare, scores, tmp_path):
    path, audit = at_top("--labeled-rows", 20)
    source = ("estimate-prior", "--scores", rare, "--verdicts", path)
    assert "--purity" in punoise(*source, "--purity", 0.1, expect=2).err
    other = str(tmp_path / "other.tsv")
    table = pd.read_csv(rare, sep="\t")
    table["score"] = table["score"] - 2 * table["id"].str.startswith("l")
    table.to_csv(other, sep="\t", index=False)
    said = punoise("estimate-prior", "--scores", other, "--verdicts", path, expect=3).err
    assert "weights" in said
    audit.assign(stratum="top").to_csv(path, sep="\t", index=False)
    assert "are unlabeled" in punoise(*source, expect=3).err
    audit[5:].to_csv(path, sep="\t", index=False)
    assert "keep all rows" in punoise(*source, expect=3).err


def test_a_top_without_unlabeled_rows_cannot_be_verified(punoise, scores, tmp_path):
    table = pd.read_csv(scores, sep="\t")
    table.loc[table["set"] == "labeled", "score"] += 1
    table.to_csv(scores, sep="\t", index=False)
    prior = tmp_path / "prior.json"
    punoise("estimate-prior", "--scores", scores, "--out", prior)
    source = ("audit", "--scores", scores, "--prior", prior, "--out", tmp_path / "a.tsv")
    assert "no unlabeled row" in punoise(*source, "--top", expect=3).err
