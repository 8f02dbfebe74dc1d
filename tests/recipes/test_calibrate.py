"""`calibrate`: thresholds as tables and JSON, in the report, by gene, and for labels in words."""

import json

import numpy as np
import pandas as pd
import pytest

from pu_noise_cli.posterior.calibration import bounds, calibrate
from pu_noise_cli.prior.base import Shares
from pu_noise_cli.score.sketch import MAX_CELLS, Sketch
from pu_noise_cli.variants.rules import Grading

CODES = [
    *("PP3_VeryStrong", "PP3_Strong", "PP3_Moderate", "PP3_Supporting"),
    *("BP4_Supporting", "BP4_Moderate", "BP4_Strong", "BP4_VeryStrong"),
]


NAMES = {level.code: level.name for level in Grading.read("acmg").levels(0.1)}


KNOWN = Shares(0.3, 0.9, from_these_rows=False)


def scores_of(rng, n, share):
    """Scores of two unit Gaussians two apart, so that log LR is 2 s - 2."""
    return rng.normal(size=n) + 2 * (rng.random(n) < share)


@pytest.fixture(scope="module")
def found():
    rng = np.random.default_rng(4)
    sketch = Sketch.from_samples(scores_of(rng, 2000, 0.9), scores_of(rng, 6000, 0.3))
    calibration = calibrate(sketch, KNOWN)
    return calibration, bounds(calibration, 0)


@pytest.mark.parametrize("lower_is_positive", [False, True])
def test_counts_of_levels_are_those_of_their_rows(lower_is_positive, punoise, tmp_path):
    """Where the sketch is coarser than the scores, too."""
    rng = np.random.default_rng(6)
    sizes = {"labeled": (3000, 1.0), "negative": (3000, 0.0), "unlabeled": (9000, 0.2)}
    score = np.concatenate([scores_of(rng, n, share) for n, share in sizes.values()])
    names = np.repeat([*sizes], [n for n, _ in sizes.values()])
    assert len(np.unique(score)) > MAX_CELLS
    frame = pd.DataFrame({"set": names, "x": -score if lower_is_positive else score})
    frame.to_parquet(tmp_path / "rows.parquet")
    table = ("--table", tmp_path / "rows.parquet", "--label-column", "set", "--score-column", "x")
    direction = ("--lower-is-positive",) if lower_is_positive else ()
    punoise("calibrate", *table, *direction, "--out-dir", tmp_path / "out")
    posterior = pd.read_parquet(tmp_path / "out/posterior.parquet")
    written = pd.read_csv(tmp_path / "out/thresholds.tsv", sep="\t", index_col="level")
    counted = pd.crosstab(posterior["evidence"], posterior["set"])
    reached = written[written["score_from"].notna()]
    assert len(reached) >= 5
    for side in ("PP3", "BP4"):
        own = reached[reached.index.str.startswith(side)].sort_values("points", key=abs)
        at_least = own[["n_unlabeled", "n_labeled", "n_negatives"]]
        exactly = at_least - at_least.shift(-1, fill_value=0)  # without the stronger levels
        rows = counted.loc[exactly.index.map(NAMES), ["unlabeled", "labeled", "negative"]]
        np.testing.assert_array_equal(rows, exactly)
    assert counted.index.isin([*(NAMES[code] for code in reached.index), "indeterminate"]).all()


def test_calibrate_learns_a_score_if_no_column_is_one(punoise, tables, tmp_path):
    quick = ("--classifier", "logistic", "--out-dir")
    for command in ("run", "calibrate"):
        punoise(command, *tables, *quick, tmp_path / command)
    names = ("scores.parquet", "prior.json", "columns.tsv")
    both = ([(tmp_path / c / name).read_bytes() for name in names] for c in ("run", "calibrate"))
    assert next(both) == next(both)
    out = tmp_path / "calibrate"
    document = json.loads((out / "thresholds.json").read_text())
    assert document["provenance"]["score_column"] is None
    written = pd.read_csv(out / "thresholds.tsv", sep="\t")
    begins = written["score_from"].dropna()
    assert len(begins)
    assert begins.between(0, 1).all()  # on the scale of the learned score
    scored = ("--model", out / "model.punoise", "--table", tables[3], "--out", tmp_path / "s.tsv")
    punoise("score", *scored)
    applied = (
        "--table",
        tmp_path / "s.tsv",
        "--score-column",
        "score",
        "--out",
        tmp_path / "e.tsv",
    )
    punoise("apply", "--thresholds", out / "thresholds.tsv", *applied)
    levels = set(pd.read_csv(tmp_path / "e.tsv", sep="\t")["level"])
    assert {"indeterminate"} < levels <= {"indeterminate", *written["level"]}


@pytest.fixture
def variants(tmp_path):
    """A predictor of which low scores are positive."""
    rng = np.random.default_rng(8)
    labeled, unlabeled = scores_of(rng, 800, 0.95), scores_of(rng, 3000, 0.2)
    frame = pd.DataFrame(
        {
            "known": np.repeat([1, 0], [800, 3000]),
            "predictor": -np.concatenate([labeled, unlabeled]),
        }
    )
    frame.to_csv(tmp_path / "variants.csv", index=False)
    return tmp_path / "variants.csv"


def test_calibrate_writes_thresholds(punoise, variants, tmp_path):
    out = tmp_path / "out"
    table = ("--table", variants, "--label-column", "known", "--lower-is-positive")
    result = punoise("calibrate", *table, "--target-alpha", 0.0441, "--out-dir", out)
    written = pd.read_csv(out / "thresholds.tsv", sep="\t")
    assert written["level"].tolist() == CODES
    start = written.set_index("level").loc["PP3_Supporting"]
    assert start["score_from"] < -1
    assert start["score_to"] < start["score_from"]
    assert f"score <= {start['score_from']:.4g}" in result.err
    posterior = pd.read_parquet(out / "posterior.parquet")
    unlabeled = posterior[posterior["set"] == "unlabeled"]
    called = unlabeled["evidence"].str.startswith("pathogenic")
    assert called.sum() == start["n_unlabeled"]
    assert (-unlabeled["score"] <= start["score_from"]).sum() == start["n_unlabeled"]
    above = (unlabeled["posterior"] >= 0.5).sum()  # in the population asked for
    assert f"{above} unlabeled rows" in result.err
    document = json.loads((out / "thresholds.json").read_text())
    assert document["dataset"] == "predictor"
    assert document["prior"] == 0.0441
    page = (out / "report.html").read_text()
    assert "chart-evidence" in page
    assert "PP3_Supporting" in page
    punoise("run", *table, "--out-dir", out)
    assert not (out / "thresholds.tsv").exists()  # of an earlier run


def test_a_rule_of_ones_own_has_codes_points_and_a_source(punoise, variants, tmp_path):
    level = {"name": "worth a look", "code": "WL", "lr": 1.5, "points": 3}
    rule = {"schema": "punoise.evidence/1", "source": 7, "levels": [level]}
    (tmp_path / "rule.json").write_text(json.dumps(rule))
    table = ("--table", variants, "--label-column", "known", "--lower-is-positive")
    out = tmp_path / "out"
    graded = ("--alpha", 0.2, "--evidence", tmp_path / "rule.json", "--out-dir", out)
    punoise("calibrate", *table, *graded)
    found = json.loads((out / "thresholds.json").read_text())
    (row,) = found["levels"]
    assert (row["level"], row["points"], found["point_ranges"]) == ("WL", 3, {})
    assert found["provenance"]["source"] is None
    levels = pd.read_parquet(out / "posterior.parquet")["evidence"]
    assert set(levels) == {"worth a look", "indeterminate"}
    for bad in ({"points": 1}, {"points": {"exponent": 0, "most": 8}}, {"levels": [{}]}):
        (tmp_path / "rule.json").write_text(json.dumps(rule | bad))
        result = punoise("calibrate", *table, *graded, expect=3)
        assert "rule.json" in result.err


# Rows in groups


def test_genes_on_the_command_line(punoise, genes, tmp_path):
    scores, sets, gene = genes
    frame = pd.DataFrame({"known": sets, "revel": scores, "gene": [f"g{g}" for g in gene]})
    frame.to_csv(tmp_path / "variants.csv", index=False)
    table = ("--table", tmp_path / "variants.csv", "--label-column", "known")
    score = ("--score-column", "revel")
    stated = ("--alpha", 0.2, "--beta", 0.9)
    for name, more in (("plain", ()), ("genes", ("--group-column", "gene"))):
        punoise("calibrate", *table, *score, *stated, *more, "--out-dir", tmp_path / name)
    plain, by_gene = (
        pd.read_csv(tmp_path / name / "thresholds.tsv", sep="\t", index_col="level")
        for name in ("plain", "genes")
    )
    assert by_gene.loc["PP3_Moderate", "n_labeled"] < plain.loc["PP3_Moderate", "n_labeled"]
    own = frame.assign(id=frame.index, set=np.where(sets == 1, "labeled", "unlabeled"))
    own.rename(columns={"revel": "score"}).to_csv(tmp_path / "scores.csv", index=False)
    files = ("--scores", tmp_path / "scores.csv", "--out", tmp_path / "p.tsv")
    group = ("--group-column", "gene")
    punoise("posterior", *files, *stated, *group, expect=2)
    widths = []
    for more in ((), group):
        punoise("posterior", *files, *stated, *more, "--bounds")
        bounded = pd.read_csv(tmp_path / "p.tsv", sep="\t")
        widths.append((bounded["posterior_high"] - bounded["posterior_low"]).mean())
    assert widths[1] > 1.2 * widths[0]
    result = punoise("estimate-prior", *table, *score, *group, expect=2)
    assert "--group-column" in result.err


@pytest.mark.ci
def test_thresholds_are_the_same_bytes_from_shards(punoise, genes, tmp_path):
    scores, sets, gene = genes
    frame = pd.DataFrame({"revel": scores, "gene": [f"g{g}" for g in gene]})
    (tmp_path / "u").mkdir()
    frame[sets == 1].to_parquet(tmp_path / "l.parquet", index=False)
    frame[sets == 0].to_parquet(tmp_path / "u.parquet", index=False)
    for i, part in enumerate(np.array_split(np.flatnonzero(sets == 0), 3)):
        frame.iloc[part].to_parquet(tmp_path / f"u/{i}.parquet", index=False)
    common = ("--group-column", "gene", "--alpha", 0.2, "--beta", 0.9)
    labeled = ("--labeled", tmp_path / "l.parquet")
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    unlabeled = ("--unlabeled", tmp_path / "u.parquet")
    punoise("calibrate", *labeled, *unlabeled, *common, "--out-dir", whole)
    shards = ("--unlabeled", tmp_path / "u", "--shards", "--threads", 2)
    punoise("calibrate", *labeled, *shards, *common, "--out-dir", parts)
    for name in ("thresholds.tsv", "thresholds.json"):
        assert (whole / name).read_bytes() == (parts / name).read_bytes()


# Labels in words of one's own


def test_label_values(punoise, variants, tmp_path):
    frame = pd.read_csv(variants)
    known = frame["known"] == 1
    words = np.where(known, "P,clinvar", np.where(frame.index % 10 == 0, "B", ""))
    frame.assign(known=words).to_csv(tmp_path / "words.csv", index=False)
    table = ("--table", tmp_path / "words.csv", "--label-column", "known", "--lower-is-positive")
    values = ("--labeled-value", "P", "--negative-value", "B,LB")
    others = ("--unlabeled-value", "*")
    punoise("estimate-prior", *table, *values, *others, "--out", tmp_path / "p.json")
    found = json.loads((tmp_path / "p.json").read_text())
    assert (found["n_labeled"], found["n_negatives"]) == (800, (words == "B").sum())
    assert found["n_unlabeled"] == (words == "").sum()
    result = punoise("estimate-prior", *table, expect=3)
    assert "P,clinvar" in result.err
    both = (*values[:2], "--negative-value", "clinvar")
    clash = punoise("estimate-prior", *table, *both, *others, expect=3)
    assert "labeled and negative" in clash.err
    assert "row 1" in clash.err
    punoise("estimate-prior", *table, *values[2:], expect=2)
    punoise("estimate-prior", *table, "--labeled-value", "P", "--negative-value", "P", expect=2)
    two = ("--labeled", variants, "--unlabeled", variants)
    punoise("estimate-prior", *two, *values, expect=2)
