"""Rows to verify: how they are drawn, what their verdicts say, and what is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import validated
from scipy.stats import beta as beta_law
from scipy.stats import hypergeom

from pu_noise_cli.audit.verdicts import STRATA, Verified, allot, expected_width, stratify


def counts(*rows: tuple[int, int, int]) -> Verified:
    return Verified(*np.transpose(rows))


# ---- The numbers


@pytest.mark.parametrize(("k", "n"), [(0, 50), (1, 50), (20, 100), (100, 100)])
def test_one_stratum_gives_the_exact_binomial_interval(k, n):
    low, high = counts((10_000_000, n, k)).interval()
    assert low == pytest.approx(beta_law.ppf(0.025, k, n - k + 1) if k else 0, abs=1e-4)
    assert high == pytest.approx(beta_law.ppf(0.975, k + 1, n - k) if k < n else 1, abs=1e-4)


def test_one_small_stratum_gives_the_exact_hypergeometric_interval():
    rng = np.random.default_rng(0)
    for _ in range(50):
        rows = int(rng.integers(1, 400))
        n = int(rng.integers(1, rows + 1))
        k = int(rng.integers(0, n + 1))
        positives = np.arange(k, rows - n + k + 1)  # that all rows may have
        possible = positives[
            (hypergeom.sf(k - 1, rows, positives, n) > 0.025)
            & (hypergeom.cdf(k, rows, positives, n) > 0.025)
        ]
        expected = possible[0] / rows, possible[-1] / rows
        assert counts((rows, n, k)).interval() == pytest.approx(expected), (rows, n, k)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("strata", [[(300, 300, 70)], [(50, 50, 0), (60, 60, 50)], [(9, 9, 9)]])
def test_rows_that_are_all_verified_leave_nothing_open(strata):
    verified = counts(*strata)
    share = verified.positive.sum() / verified.rows.sum()
    assert verified.interval() == (share, share)
    assert verified.estimate() == share
    assert set(verified.draws(20)) == {share}


@pytest.mark.parametrize("rows", [200, 20_000])
def test_the_interval_narrows_with_the_rows_that_are_left(rows):
    """By the square root of the fraction of the rows that have no verdict."""
    fractions = np.array([0.1, 0.5, 0.9])
    checked = (rows * fractions).astype(int)
    finite = [np.ptp(counts((rows, n, n // 4)).interval()) for n in checked]
    endless = [np.ptp(counts((10**9, n, n // 4)).interval()) for n in checked]
    assert np.divide(finite, endless) == pytest.approx(np.sqrt(1 - fractions), rel=0.1)


@pytest.mark.ci
def test_the_interval_of_a_small_population_covers():
    rng = np.random.default_rng(0)
    rows, checked = np.array([60, 40, 30, 20]), np.array([20, 25, 20, 15])
    covered = []
    for _ in range(500):
        k = rng.binomial(rows, [0.02, 0.2, 0.6, 0.9])
        low, high = Verified(rows, checked, rng.hypergeometric(k, rows - k, checked)).interval()
        covered.append(low <= k.sum() / rows.sum() <= high)
    assert np.mean(covered) >= 0.94


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


def test_a_stratum_without_verdicts_may_be_anything():
    low, high = counts((500, 50, 0), (500, 0, 0)).interval()
    assert low == 0
    assert high > 0.5


@pytest.mark.filterwarnings("error")
def test_a_stratum_that_lost_its_rows_says_nothing():
    low, high = counts((500, 50, 20), (0, 0, 0), (500, 50, 30)).interval()
    assert (low, high) == pytest.approx(counts((500, 50, 20), (500, 50, 30)).interval(), abs=0.01)


@pytest.mark.ci
@pytest.mark.parametrize(("alpha", "n"), [(0.02, 50), (0.2, 100)])
def test_the_interval_covers_whether_or_not_the_model_is_right(alpha, n):
    """Posteriors that are too high or too low by a factor of five in the odds."""
    rng = np.random.default_rng(5)
    covered, widths, foreseen = [], [], []
    for i in range(250):
        y = rng.random(4000) < alpha
        x = np.sort(rng.normal(size=len(y)) + 1.6 * y)
        y = y[np.argsort(rng.normal(size=len(y)) * 0.7 + y)]  # in another order than the model's
        logit = np.log(alpha / (1 - alpha)) + 1.6 * x - 1.28 + (-1) ** i * np.log(5)
        stratum, due = stratify(1 / (1 + np.exp(-logit)), np.ones(len(y), int))
        rows = np.bincount(stratum)
        checked = allot(n, due, rows)
        positive = [rng.permutation(y[stratum == h])[:k].sum() for h, k in enumerate(checked)]
        low, high = Verified(rows, checked, np.array(positive)).interval()
        covered.append(low <= y.mean() <= high)
        widths.append(high - low)
        share = np.bincount(stratum, y) / rows
        foreseen.append(expected_width(n, due, rows, share))
    assert 0.92 <= np.mean(covered) <= 0.996
    assert np.median(np.abs(np.array(foreseen) / widths - 1)) < 0.25


def test_strata_are_due_what_is_doubtful_and_every_one_gets_rows():
    p = np.linspace(0.001, 0.6, 500) ** 2
    rows = np.full(500, 20)
    stratum, due = stratify(p, rows)
    assert (np.diff(stratum) >= 0).all()
    assert due == pytest.approx(np.full(STRATA, 1 / STRATA), abs=0.02)
    sizes = np.bincount(stratum, rows).astype(int)
    assert sizes[0] > 2 * sizes[-1]
    assert allot(100, due, sizes).sum() == 100
    assert allot(7, due, sizes).sum() == 7
    assert allot(10**6, due, sizes).tolist() == sizes.tolist()


def test_posteriors_that_are_all_sure_or_all_the_same_can_be_stratified():
    for p in (np.ones(3), np.zeros(3), np.full(1, 0.5)):
        stratum, due = stratify(p, np.full(len(p), 30))
        assert due.sum() == pytest.approx(1)
        assert len(due) == stratum.max() + 1


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
    out = ("--out", tmp_path / "a.csv")
    said = punoise("audit", "--scores", scores, "--prior", prior, "--labeled-rows", 12, *out).err
    assert "width  of the interval of alpha: 0." in said
    assert "interval of beta: 0." in said


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
    assert " agree " in said.err
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
    audit.to_csv(path, sep="\t", index=False)
    said = punoise("estimate-prior", "--scores", scores, "--verdicts", path)
    assert said.prior["n_verdicts"] == 54
    assert said.prior["alpha_ci"][0] == 0
    assert 0 < said.prior["alpha"] < said.prior["alpha_ci"][1] < 0.15
    codes = {warning["code"] for warning in said.prior["warnings"]}
    assert {"posteriors-not-calibrated", "methods-disagree"} <= codes
    assert " contradict " in said.err


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


def test_the_order_of_verdicts_changes_nothing(drawn, punoise, scores, tmp_path):
    path, audit = drawn("--labeled-rows", 30)
    audit.sample(frac=1, random_state=3).to_csv(tmp_path / "other.tsv", sep="\t", index=False)
    found, other = (
        punoise("estimate-prior", "--scores", scores, "--verdicts", file).prior
        for file in (path, tmp_path / "other.tsv")
    )
    assert found == other


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
    assert "needs a row" in punoise(*source, "--rows", 3, expect=2).err


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
        ("id", "nobody", "has no unlabeled row with the id 'nobody'"),
        ("set", "labeled", "has no labeled row"),
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
    assert "fewer" in punoise(*audit, *swapped, expect=3).err
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
    said = punoise(*audit, *tables, "--keep-columns", "b", expect=2).err
    assert "--negatives" in said


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
    assert "150 unlabeled rows" in found.err
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
