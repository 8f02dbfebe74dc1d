"""Evidence from thresholds to rows: the model, `calibrate`, `apply`, labels, and few controls."""

import json

import numpy as np
import pandas as pd
import pytest

import pu_noise_cli
from pu_noise_cli.variants.apply import LevelRanges

LEVELS = {
    "pathogenic_very_strong": "PP3_VeryStrong",
    "pathogenic_strong": "PP3_Strong",
    "pathogenic_moderate": "PP3_Moderate",
    "pathogenic_supporting": "PP3_Supporting",
    "benign_supporting": "BP4_Supporting",
    "benign_moderate": "BP4_Moderate",
    "benign_strong": "BP4_Strong",
    "benign_very_strong": "BP4_VeryStrong",
    "indeterminate": "indeterminate",
}


ALPHA = 0.0441


@pytest.fixture(scope="module")
def predictor(tmp_path_factory):
    """Variants of both classes in genes, scored by a coarse predictor of which low is positive."""
    rng = np.random.default_rng(5)
    n = 1200
    gene = rng.integers(40, size=2 * n)
    effect = rng.normal(size=40)
    y = np.repeat([1, 0], n)
    x = 2.5 * y + 0.3 * effect[gene] + 0.8 * rng.normal(size=2 * n)
    frame = pd.DataFrame({"variant": [f"v{i}" for i in range(2 * n)], "gene": gene, "y": y})
    frame["sift"] = np.round(-x, 2)  # many ties
    folder = tmp_path_factory.mktemp("predictor")
    frame.to_csv(folder / "all.tsv", sep="\t", index=False)
    frame[frame["y"] == 1].to_csv(folder / "p.tsv", sep="\t", index=False)
    frame[frame["y"] == 0].to_csv(folder / "b.tsv", sep="\t", index=False)
    return folder, frame


def calibrated(punoise, folder, out, *more, expect=0):
    tables = ("--labeled", folder / "p.tsv", "--negatives", folder / "b.tsv")
    options = ("--score-column", "sift", "--id-column", "variant", "--group-column", "gene")
    more = ("--alpha", ALPHA, "--out-dir", out, *more)
    return punoise("calibrate", *tables, *options, *more, expect=expect)


def own_levels(table, scores):
    """The level of each score, read from a table of thresholds in the plainest way."""
    levels = np.full(len(scores), "indeterminate", dtype=object)
    for row in table.dropna(subset="score_from").itertuples():
        if row.score_from <= row.score_to:
            inside = (scores >= row.score_from) & (scores < row.score_to)
        else:
            inside = (scores <= row.score_from) & (scores > row.score_to)
        levels[inside] = row.level
    return levels


def test_levels_are_the_same_from_files_and_python(punoise, predictor, tmp_path):
    folder, frame = predictor
    out = tmp_path / "sift"
    calibrated(punoise, folder, out, "--lower-is-positive")
    table = pd.read_csv(out / "thresholds.tsv", sep="\t")
    # new scores lie between those that were calibrated, too
    new = pd.DataFrame({"sift": np.linspace(-6, 4, 20_001)})
    frame = pd.concat([frame, new], ignore_index=True)
    frame["gene"] = frame["gene"].fillna(0)
    frame.to_csv(tmp_path / "new.tsv", sep="\t", index=False)
    expected = own_levels(table, frame["sift"].to_numpy())
    assert len(set(expected)) >= 6

    posterior = pd.read_parquet(out / "posterior.parquet")
    assert (posterior["evidence"].map(LEVELS) == own_levels(table, -posterior["score"])).all()

    for name in ("thresholds.tsv", "thresholds.json"):
        rows = ("--table", tmp_path / "new.tsv", "--score-column", "sift")
        punoise("apply", "--thresholds", out / name, *rows, "--out", tmp_path / "e.tsv")
        by_file = pd.read_csv(tmp_path / "e.tsv", sep="\t")
        assert (by_file["level"] == expected).all()
        points = by_file["level"].map(table.set_index("level")["points"]).fillna(0)
        assert (by_file["points"] == points).all()
        by_python = pu_noise_cli.apply(frame, str(out / name), "sift")
        assert (by_python["level"] == expected).all()
        assert by_python.index.equals(frame.index)


def test_the_model_keeps_what_groups_widen(punoise, predictor, tmp_path):
    folder, _ = predictor
    calibrated(punoise, folder, tmp_path / "genes", "--lower-is-positive")
    scores = ("--scores", tmp_path / "genes/scores.parquet", "--alpha", ALPHA, "--bounds")
    out = ("--out", tmp_path / "p.parquet")
    punoise("posterior", *scores, *out)
    narrow = pd.read_parquet(tmp_path / "p.parquet")
    new = tmp_path / "new.tsv"
    model = ("--model", tmp_path / "genes/model.punoise")
    punoise("score", *model, "--table", folder / "all.tsv", "--out", new)
    punoise("posterior", *model, "--scores", new, *scores[2:], *out)
    wide = pd.read_parquet(tmp_path / "p.parquet")
    width = [(f["posterior_high"] - f["posterior_low"]).mean() for f in (narrow, wide)]
    assert width[1] > 1.05 * width[0]


def test_a_reversed_score_is_an_error(punoise, predictor, tmp_path):
    folder, _ = predictor
    out = tmp_path / "out"
    tables = ("--labeled", folder / "p.tsv", "--negatives", folder / "b.tsv")
    options = ("--score-column", "sift", "--alpha", ALPHA, "--out-dir", out)
    result = punoise("calibrate", *tables, *options, expect=4)
    assert "--lower-is-positive" in result.err
    assert not out.exists()


def test_the_screen_says_what_is_out_of_reach(punoise, tmp_path):
    rng = np.random.default_rng(1)
    pd.DataFrame({"x": rng.normal(3, 1, 182)}).to_csv(tmp_path / "p.csv", index=False)
    pd.DataFrame({"x": rng.normal(0, 1, 37)}).to_csv(tmp_path / "b.csv", index=False)
    tables = ("--labeled", tmp_path / "p.csv", "--negatives", tmp_path / "b.csv")
    out = ("--score-column", "x", "--alpha", 0.1, "--out-dir", tmp_path / "out")
    result = punoise("calibrate", *tables, *out)
    for number in ("37 known negatives", "12.4", "350"):
        assert number in result.err
    assert "[few-controls]" in result.err
    document = json.loads((tmp_path / "out/thresholds.json").read_text())
    assert document["reach"]["lr_greatest"] == pytest.approx(12.35, abs=0.01)
    page = (tmp_path / "out/report.html").read_text()
    assert "out of reach" in page
    assert page.index('id="evidence"') < page.index('id="answer"')


# Documents


def mavedb_classifications(document):
    """A score calibration as MaveDB checks it, from its data model's documentation."""
    classifications = document["functional_classifications"]
    labels = [one["label"] for one in classifications]
    assert len(set(labels)) == len(labels)
    for one in classifications:
        low, high = one["range"]
        assert low is None or high is None or low < high
        assert not (low is None and one["inclusive_lower_bound"])
        assert not (high is None and one["inclusive_upper_bound"])
        points = one["acmg_classification"]["points"]
        assert one["functional_classification"] == ("abnormal" if points > 0 else "normal")
    return classifications


def mavedb_contains(one, score):
    low, high = one["range"]
    above = low is None or score > low or (one["inclusive_lower_bound"] and score == low)
    return above and (
        high is None or score < high or (one["inclusive_upper_bound"] and score == high)
    )


def mavedb_loads(document):
    """ExCALIBR's ranges as MaveDB loads them: without the end next to indeterminate scores."""
    loaded = []
    for points, ranges in document["point_ranges"].items():
        for low, high in ranges:
            upper = document["scoreset_flipped"] == (int(points) < 0)
            lower_in = low is not None and upper
            upper_in = high is not None and not upper
            flags = {"inclusive_lower_bound": lower_in, "inclusive_upper_bound": upper_in}
            loaded.append({"range": [low, high], "points": int(points), **flags})
    return loaded


@pytest.mark.parametrize("direction", [(), ("--lower-is-positive",)])
def test_mavedb_gives_tied_scores_their_points(direction, punoise, predictor, tmp_path):
    folder, frame = predictor
    if not direction:
        turned = tmp_path / "turned"
        turned.mkdir()
        frame = frame.assign(sift=-frame["sift"] + 0.0)
        for name, y in (("p", 1), ("b", 0)):
            frame[frame["y"] == y].to_csv(turned / f"{name}.tsv", sep="\t", index=False)
        folder = turned
    disease = ("--disease", "MONDO:0007254")
    calibrated(punoise, folder, tmp_path / "out", *direction, *disease)
    calibrated(punoise, folder, tmp_path / "x", *direction, "--disease", "cancer", expect=2)
    document = json.loads((tmp_path / "out/thresholds.json").read_text())
    classifications = mavedb_classifications(document)
    table = pd.read_csv(tmp_path / "out/thresholds.tsv", sep="\t")
    scores = np.unique(frame["sift"])
    thresholds = table["score_from"].dropna()
    assert np.isin(thresholds, scores).all()  # so that ends matter
    by_level = table.set_index("level")["points"]
    for score, level in zip(scores, own_levels(table, scores), strict=True):
        inside = [one for one in classifications if mavedb_contains(one, score)]
        loaded = [one for one in mavedb_loads(document) if mavedb_contains(one, score)]
        assert len(inside) <= 1
        points = inside[0]["acmg_classification"]["points"] if inside else 0
        assert [one["points"] for one in loaded] == ([points] if points else [])
        weakest = by_level.get(level, 0)  # a level is the points that are reached at least
        assert abs(points) >= abs(weakest)
        assert points * weakest > 0 or points == weakest == 0
    assert document["disease"] == "MONDO:0007254"
    assert document["research_use_only"] is True
    controls = pd.DataFrame(document["controls"]).set_index("variant")
    known = frame.set_index("variant")
    assert controls.index.equals(known.index)
    assert ((controls["clinical_status"] == "pathogenic") == (known["y"] == 1)).all()
    for variant in controls.index[::50]:
        landed = [
            one["label"]
            for one in classifications
            if mavedb_contains(one, known.loc[variant, "sift"])
        ]
        assert controls.loc[variant, "range"] == (landed[0] if landed else "indeterminate")


# apply


def test_published_thresholds_by_name(punoise, tmp_path):
    scores = [0.932, 0.9319, 0.773, 0.644, 0.6439, 0.291, 0.29, 0.183, 0.016, 0.003, None]
    frame = pd.DataFrame(
        {"CHROM": "1", "POS": range(11), "REVEL": scores, "ps3": [1, *[None] * 10]}
    )
    frame.to_csv(tmp_path / "v.tsv", sep="\t", index=False)
    rows = ("--table", tmp_path / "v.tsv", "--score-column", "REVEL", "--id-column", "CHROM,POS")
    more = ("--keep-columns", "ps3", "--add-points", "ps3", "--out", tmp_path / "e.tsv")
    result = punoise("apply", "--thresholds", "pejaver2022:REVEL", *rows, *more)
    assert "1  without a score" in result.err
    found = pd.read_csv(tmp_path / "e.tsv", sep="\t")
    columns = ["CHROM", "POS", "score", "level", "points", "points_total", "ps3"]
    assert found.columns.tolist() == columns
    assert found["points"].tolist()[:10] == [4, 2, 2, 1, 0, 0, -1, -2, -4, -8]
    assert found["level"].isna().tolist() == [False] * 10 + [True]
    assert found["points_total"].tolist() == [5, 2, 2, 1, 0, 0, -1, -2, -4, -8, 0]
    sift = LevelRanges.read("pejaver2022:sift")
    values = np.array([0, 0.0005, 0.001, 0.0011, 0.08, 0.327])
    assert sift.points[sift.places(values)].tolist() == [2, 1, 1, 0, -1, -2]
    gerp = LevelRanges.read("pejaver2022:GERP++")
    assert gerp.points[gerp.places(np.array([6.0, 2.7, -5.0]))].tolist() == [0, -1, -2]
    unknown = punoise("apply", "--thresholds", "pejaver2022:x", *rows, *more, expect=2)
    assert "pejaver2022:VEST4" in unknown.err


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("a\t1\t0.5\tinf\nb\t2\t0.7\tinf\n", "overlap"),
        ("a\t1\t0.5\t\n", "score_to"),
        ("a\t1\tinf\t0\n", "score_from"),
        ("a\t1.5\t0.5\tinf\n", "row 1: Expected `int | null`, got `float` - at `$.points`"),
        ("a\tx\t0.5\tinf\n", "row 1: column 'points'"),
    ],
)
def test_bad_thresholds_are_errors(rows, message, punoise, tmp_path):
    (tmp_path / "t.tsv").write_text("level\tpoints\tscore_from\tscore_to\n" + rows)
    pd.DataFrame({"x": [0.1, 0.6]}).to_csv(tmp_path / "v.csv", index=False)
    table = ("--table", tmp_path / "v.csv", "--score-column", "x", "--out", tmp_path / "e.tsv")
    result = punoise("apply", "--thresholds", tmp_path / "t.tsv", *table, expect=3)
    assert message in result.err
    assert not (tmp_path / "e.tsv").exists()


# Thresholds of another predictor


def test_thresholds_of_another_predictor_are_a_warning(punoise, predictor, tmp_path):
    folder, frame = predictor
    calibrated(punoise, folder, tmp_path / "out", "--lower-is-positive", "--sample", "cohort")
    same = ("sift", "SIFT_score", "SIFT4G_rankscore", "score", "Value")
    for column in (*same, "VEST4_score", "REVEL"):
        frame.rename(columns={"sift": column}).to_csv(tmp_path / "v.csv", index=False)
        table = ("--table", tmp_path / "v.csv", "--score-column", column)
        for thresholds in (tmp_path / "out/thresholds.json", "pejaver2022:SIFT"):
            given = ("--thresholds", thresholds, *table, "--out", tmp_path / "e.tsv")
            result = punoise("apply", *given)
            assert ("[other-predictor]" in result.err) == (column not in same), column
            assert ("Check --score-column" in result.err) == (column not in same)


# Thresholds of genes


def test_thresholds_of_genes_are_those_of_their_rows(punoise, predictor, tmp_path):
    folder, frame = predictor
    out = tmp_path / "sift"
    terminal = calibrated(punoise, folder, out, "--lower-is-positive", "--by", "gene").err
    line = next(line for line in terminal.splitlines() if line.startswith("groups 40"))
    assert "alpha" not in line
    genes = pd.read_csv(out / "group_thresholds.tsv", sep="\t", dtype={"group": str})
    whole = pd.read_csv(out / "thresholds.tsv", sep="\t")
    other = genes[genes["group"] == "(other)"]
    for column in ("level", "points", "score_from", "score_to"):
        pd.testing.assert_series_equal(
            other[column].reset_index(drop=True), whole[column], check_names=False
        )
    # a gene whose scores are low has low thresholds, and one with many rows leans less on others
    reached = genes[genes["level"] == "PP3_Supporting"].set_index("group").drop("(other)")
    begins = reached["score_from"]
    assert f"PP3_Supporting from {begins.min():.4g} to {begins.max():.4g}" in line
    report = (out / "report.html").read_text()
    assert "punoise calibrate --labeled p.tsv" in report
    assert "punoise run" not in report
    means = frame.groupby(frame["gene"].astype(str))["sift"].mean()
    assert np.corrcoef(means[reached.index], reached["score_from"])[0, 1] > 0.8
    assert other["shrinkage"].eq(1).all()
    assert reached["shrinkage"].max() < 0.5

    strange = frame.assign(gene="unheard of")
    pd.concat([frame, strange]).to_csv(tmp_path / "new.tsv", sep="\t", index=False)
    given = ("--thresholds", out / "group_thresholds.tsv", "--table", tmp_path / "new.tsv")
    given = (
        *given,
        "--score-column",
        "sift",
        "--id-column",
        "variant",
        "--out",
        tmp_path / "e.tsv",
    )
    result = punoise("apply", *given, "--by", "gene")
    assert f"{len(frame)}  rows of 1 group" in result.err
    assert "(other)" in result.err
    (tmp_path / "e.tsv").unlink()
    result = punoise("apply", *given, "--by", "variant", expect=3)
    for named in ("--by variant", "'v0'", "'1'"):
        assert named in result.err
    assert not (tmp_path / "e.tsv").exists()
    punoise("apply", *given, "--by", "gene")
    applied = pd.read_csv(tmp_path / "e.tsv", sep="\t")
    rows = pd.read_parquet(out / "posterior.parquet").set_index("id")
    own = applied[: len(frame)].set_index("id")
    assert (own["level"] == rows["evidence"].map(LEVELS)[own.index]).all()
    assert (applied["level"][len(frame) :] == own_levels(whole, frame["sift"].to_numpy())).all()
    assert (own["level"] != own_levels(whole, own["score"].to_numpy())).mean() > 0.05

    by_gene = (str(out / "group_thresholds.tsv"), "sift")
    in_python = pu_noise_cli.apply(frame.astype({"gene": str}), *by_gene, by="gene")
    assert (in_python["level"].to_numpy() == applied["level"][: len(frame)].to_numpy()).all()
    with pytest.raises(pu_noise_cli.errors.UsageError, match="by="):
        pu_noise_cli.apply(frame, *by_gene)
    with pytest.raises(pu_noise_cli.errors.InputError, match="group"):
        pu_noise_cli.apply(frame, *by_gene, by="variant")

    assert "--by" in punoise("apply", *given, expect=2).err
    plain = ("--thresholds", out / "thresholds.tsv", *given[2:], "--by", "gene")
    assert "group" in punoise("apply", *plain, expect=2).err
    genes[genes["group"] != "(other)"].to_csv(tmp_path / "g.tsv", sep="\t", index=False)
    without = ("--thresholds", tmp_path / "g.tsv", *given[2:], "--by", "gene")
    assert "(other)" in punoise("apply", *without, expect=3).err


@pytest.mark.parametrize("lower_is_positive", [True, False])
def test_a_gene_without_known_positives_has_no_lower_thresholds(
    lower_is_positive, punoise, predictor, tmp_path
):
    _, frame = predictor
    sign = 1 if lower_is_positive else -1
    frame = frame.assign(gene=frame["gene"].astype(str), sift=sign * frame["sift"])
    means = frame.groupby("gene")["sift"].mean().mul(-sign).sort_values()
    no_positives, no_negatives = means.index[:5], means.index[-5:]  # score low, and high
    positive, known = frame["y"] == 1, {}
    known["p"] = frame[positive & ~frame["gene"].isin(no_positives)]
    known["b"] = frame[~positive & ~frame["gene"].isin(no_negatives)]
    for name, rows in known.items():
        rows.to_csv(tmp_path / f"{name}.tsv", sep="\t", index=False)
    direction = ("--lower-is-positive",) if lower_is_positive else ()
    calibrated(punoise, tmp_path, tmp_path / "out", "--by", "gene", *direction)
    table = pd.read_csv(tmp_path / "out/group_thresholds.tsv", sep="\t", dtype={"group": str})
    begins = table.pivot(index="group", columns="level", values="score_from") * -sign
    shared = begins.loc["(other)"]
    for level in ("PP3_Supporting", "PP3_Moderate"):
        assert (begins.loc[no_positives, level] >= shared[level]).all()
        assert (begins[level] < shared[level]).any()
    for level in ("BP4_Supporting", "BP4_Moderate"):
        assert (begins.loc[no_negatives, level] <= shared[level]).all()
        assert (begins[level] > shared[level]).any()
    rows = pd.read_parquet(tmp_path / "out/posterior.parquet")
    own = rows[rows["gene"].isin(no_positives)]
    below = own["score"] < shared["PP3_Supporting"]
    assert below.any()
    assert not own["evidence"][below].map(LEVELS).str.startswith("PP3").any()


def test_thresholds_of_genes_are_for_one_population_if_wanted(punoise, predictor, tmp_path):
    folder, _ = predictor
    tables = ("--labeled", folder / "p.tsv", "--unlabeled", folder / "all.tsv", "--count-overlap")
    score = ("--score-column", "sift", "--lower-is-positive", "--id-column", "variant")
    out = ("--target-alpha", ALPHA, "--by", "gene", "--out-dir", tmp_path / "run")
    punoise("calibrate", *tables, *score, *out)
    genes = pd.read_csv(tmp_path / "run" / "group_thresholds.tsv", sep="\t", dtype={"group": str})
    other = genes[genes["group"] == "(other)"].set_index("level")["score_from"]
    whole = pd.read_csv(tmp_path / "run" / "thresholds.tsv", sep="\t", index_col="level")
    pd.testing.assert_series_equal(other, whole["score_from"])
    rows = pd.read_parquet(tmp_path / "run" / "posterior.parquet")
    assert (rows["target_alpha"] == ALPHA).all()
    assert abs(rows["posterior"][rows["set"] == "unlabeled"].mean()) < 0.4
    ratio = rows["lr"] * ALPHA / (1 - ALPHA)
    np.testing.assert_allclose(rows["posterior"], ratio / (1 + ratio), atol=1e-6)


# Labels


@pytest.fixture
def classes(tmp_path):
    rng = np.random.default_rng(3)
    words = np.repeat(["P", "B", "VUS", ""], [100, 100, 150, 100])
    rng.shuffle(words)
    frame = pd.DataFrame({"class": words, "x": rng.normal(size=450) + 3 * (words == "P")})
    frame.to_csv(tmp_path / "classes.csv", index=False)
    return tmp_path / "classes.csv", frame


def test_every_label_must_be_named(punoise, classes, tmp_path):
    table, frame = classes
    known = ("--table", table, "--label-column", "class", "--labeled-value", "P")
    both = (*known, "--negative-value", "B")
    graded = ("--alpha", 0.1, "--score-column", "x", "--out-dir", tmp_path / "out")
    for stated in ((), ("--ignore-value", "VUS"), ("--unlabeled-value", "VUS")):
        result = punoise("calibrate", *both, *stated, *graded, expect=3)
        assert "'', 'B', 'P', 'VUS'" in result.err
        assert "--ignore-value" in result.err
    counts = {
        ("--ignore-value", "*"): (100, 0, 100),
        ("--unlabeled-value", "*", "--ignore-value", "VUS"): (100, 100, 100),
        ("--unlabeled-value", "VUS", "--ignore-value", "*"): (100, 150, 100),
    }
    for stated, expected in counts.items():
        punoise("calibrate", *both, *stated, *graded)
        prior = json.loads((tmp_path / "out/prior.json").read_text())
        found = (prior["n_labeled"], prior["n_unlabeled"], prior["n_negatives"])
        assert found == expected
    scores = pd.read_parquet(tmp_path / "out/scores.parquet")
    kept = frame[frame["class"] != ""]
    np.testing.assert_array_equal(scores["score"], kept["x"])
    twice = ("--ignore-value", "P")
    punoise("calibrate", *both, *twice, *graded, expect=2)
    punoise("estimate-prior", *known, "--out", tmp_path / "p.json")  # others are unlabeled
    assert json.loads((tmp_path / "p.json").read_text())["n_unlabeled"] == 350


def test_benign_rows_are_not_the_population_by_accident(punoise, classes, tmp_path):
    known = ("--table", classes[0], "--label-column", "class", "--labeled-value", "P")
    graded = ("--score-column", "x", "--out-dir", tmp_path / "out")
    for more in (("--alpha", 0.1), (), ("--ignore-value", "VUS")):
        result = punoise("calibrate", *known, *graded, *more, expect=2)
        for named in ("'VUS' (150)", "'B' (100)", "'' (100)"):
            assert named in result.err
        for option in ("--negative-value", "--unlabeled-value"):
            assert option in result.err
        assert "'P'" not in result.err
    assert not (tmp_path / "out").exists()
    punoise("calibrate", *known, *graded, "--unlabeled-value", "*", "--alpha", 0.1)
    prior = json.loads((tmp_path / "out/prior.json").read_text())
    assert (prior["n_unlabeled"], prior["n_negatives"]) == (350, None)


def test_a_percentage_and_part_of_a_name_are_understood(punoise, predictor, tmp_path):
    folder, _ = predictor
    tables = ("--labeled", folder / "p.tsv", "--negatives", folder / "b.tsv")
    given = ("calibrate", *tables, "--out-dir", tmp_path / "out")
    result = punoise(*given, "--score-column", "sift", "--alpha", "4.41", expect=2)
    assert "4.41% is 0.0441" in result.err
    result = punoise(*given, "--score-column", "sift", "--alpha", "441", expect=2)
    assert "%" not in result.err
    names = [f"c{i}" for i in range(10)]
    frame = pd.DataFrame([range(12)] * 3, columns=[*names, "VEST4_rankscore", "VEST4_score"])
    frame.to_csv(tmp_path / "v.csv", index=False)
    table = ("--table", tmp_path / "v.csv", "--out", tmp_path / "e.tsv")
    published = ("apply", "--thresholds", "pejaver2022:VEST4", *table)
    for column in ("VEST4", "vest4_score", "VEST_score"):
        result = punoise(*published, "--score-column", column, expect=3)
        assert "'VEST4_score'" in result.err
    assert "VEST4_score" not in punoise(*published, "--score-column", "REVEL", expect=3).err


def test_the_short_help_has_what_clinical_tables_need(punoise):
    listed = punoise("calibrate", "-h").out.decode()
    for option in ("--missing-score", "--negative-value"):
        assert option in listed


def test_errors_name_the_row_of_the_file_though_rows_are_ignored(punoise, classes, tmp_path):
    table, frame = classes
    row = int(np.flatnonzero(frame["class"] == "B")[40])
    frame = frame.astype({"x": object})
    frame.loc[row, "x"] = "oops"
    frame.to_csv(table, index=False)
    known = ("--table", table, "--label-column", "class", "--labeled-value", "P")
    both = (*known, "--negative-value", "B", "--ignore-value", "*")
    out = ("--alpha", 0.1, "--score-column", "x", "--out-dir", tmp_path / "out")
    result = punoise("calibrate", *both, *out, expect=3)
    assert f"row {row + 1}" in result.err
