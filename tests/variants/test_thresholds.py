"""Score thresholds of levels of evidence: as numbers, tables, JSON, and in the report."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from pu_noise_cli.posterior.calibration import GroupCopies, bounds, calibrate, widen
from pu_noise_cli.posterior.columns import ScoredChunk
from pu_noise_cli.posterior.groups import OTHER, Groups
from pu_noise_cli.posterior.pooling import PooledShares
from pu_noise_cli.prior.base import Shares
from pu_noise_cli.prior.document import Prior
from pu_noise_cli.score.sketch import MAX_CELLS, Sketch
from pu_noise_cli.tables.rows import Chunk
from pu_noise_cli.variants.apply import LevelRange
from pu_noise_cli.variants.groups import GroupThresholds
from pu_noise_cli.variants.rules import Grading, Level
from pu_noise_cli.variants.thresholds import Thresholds

COLUMNS = [
    *("level", "points", "score_from", "score_to", "lr", "posterior", "posterior_bound"),
    *("n_unlabeled", "n_labeled", "n_negatives"),
]
CODES = [
    *("PP3_VeryStrong", "PP3_Strong", "PP3_Moderate", "PP3_Supporting"),
    *("BP4_Supporting", "BP4_Moderate", "BP4_Strong", "BP4_VeryStrong"),
]
NAMES = {level.code: level.name for level in Grading.read("acmg").levels(0.1)}
ACMG = Grading.read("acmg", 0.0441)
ABOUT = Prior(method="stated", seed=0, alpha=0.3, beta=0.9, sample="assay")
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


def test_thresholds_lie_where_the_bound_meets_the_level(found):
    calibration, held = found
    thresholds = Thresholds.from_calibration(calibration, held, ACMG)
    held = thresholds.bounds
    assert [one.level.code for one in thresholds.levels] == CODES
    assert [one.level.points for one in thresholds.levels] == [8, 4, 2, 1, -1, -2, -4, -8]
    scores = calibration.sketch.scores
    for one in thresholds.levels:
        if one.reached is None:
            continue
        level, start = one.level, one.reached.score_from
        inside = scores <= start if level.against else scores >= start
        met = held.lr[1] <= level.lr if level.against else held.lr[0] >= level.lr
        np.testing.assert_array_equal(inside, met)
        assert one.n_unlabeled == calibration.sketch.unlabeled[inside].sum()
        assert one.n_labeled == calibration.sketch.labeled[inside].sum()
        assert (one.reached.posterior_bound <= level.posterior) == level.against
        true = np.exp(2 * start - 2)
        assert true <= level.lr * 1.1 if level.against else true >= level.lr / 1.1


def test_ranges_follow_each_other(found):
    levels = Thresholds.from_calibration(*found, ACMG).levels
    reached = [one.reached for one in levels]
    assert reached[0] is None  # few rows are that telling
    assert reached[1].score_to == np.inf
    assert reached[1].score_from == reached[2].score_to
    assert reached[2].score_from == reached[3].score_to
    assert reached[4].score_to == reached[5].score_from
    assert levels[0].n_unlabeled == 0


def test_a_predictor_that_runs_the_other_way_keeps_its_scale(found):
    usual, turned = (Thresholds.from_calibration(*found, ACMG, lower) for lower in (False, True))
    for one, other in zip(usual.levels, turned.levels, strict=True):
        assert (one.reached is None) == (other.reached is None)
        if one.reached is not None:
            assert other.reached.score_from == -one.reached.score_from
            assert other.reached.score_to == -one.reached.score_to
            assert other.n_unlabeled == one.n_unlabeled


def test_every_row_of_a_coarse_cell_is_within_the_threshold():
    rng = np.random.default_rng(0)
    labeled, unlabeled = scores_of(rng, 20_000, 0.9), scores_of(rng, 100_000, 0.3)
    sketch = Sketch.from_samples(labeled, unlabeled)
    assert sketch.level > 0
    low, high = sketch.spans()
    cells = sketch.cell_index(unlabeled)
    assert (low[cells] <= unlabeled).all()
    assert (unlabeled <= high[cells]).all()
    assert (low[1:] > high[:-1]).all()
    calibration = calibrate(sketch, KNOWN)
    levels = Thresholds.from_calibration(calibration, bounds(calibration, 0), ACMG).levels
    for one in (levels[2], levels[5]):
        start = one.reached.score_from
        inside = unlabeled <= start if one.level.against else unlabeled >= start
        assert inside.sum() == one.n_unlabeled


@pytest.mark.parametrize("lower_is_positive", [False, True])
def test_the_column_of_levels_begins_and_ends_where_thresholds_do(found, lower_is_positive):
    thresholds = Thresholds.from_calibration(*found, ACMG, lower_is_positive)
    reached = [one for one in thresholds.levels if one.reached is not None]
    begins = np.array([one.reached.score_from for one in reached])
    own = np.concatenate([begins, np.nextafter(begins, -np.inf), np.nextafter(begins, np.inf)])
    expected = np.full(len(own), "indeterminate", dtype=object)
    for one in reached:
        ends = LevelRange(one.level.code, None, one.reached.score_from, one.reached.score_to)
        expected[ends.holds(own)] = one.level.name
    assert expected[: len(begins)].tolist() == [one.level.name for one in reached]
    sketch, column = found[0].sketch, thresholds.evidence()
    scores = np.append(-own if lower_is_positive else own, np.nan)
    chunk = Chunk(pa.record_batch([scores], ["score"]), np.zeros(len(scores), np.int8), 0, 0, "", 0)
    rows = ScoredChunk(sketch, chunk, scores)
    assert column.array(rows, rows.scored).to_pylist() == [*expected, None]


@pytest.mark.parametrize("lower_is_positive", [False, True])
def test_a_group_has_the_levels_of_its_own_thresholds(found, lower_is_positive):
    """Of two groups, one does not reach the stronger level; rows of no group are OTHER's."""
    levels = (
        Level("strong", 9.0, 0.5, "S"),
        Level("weak", 2.0, 0.2, "W"),
        Level("against", 0.5, 0.01, "A"),
    )
    begins = np.array([[2.0, 1.0, -1.0], [np.nan, 1.5, -2.0]])
    unit = {field.name: np.zeros(2) for field in dataclasses.fields(PooledShares)}
    groups = Groups("gene", (OTHER, "G"), np.ones((2, 3), np.int64), PooledShares(**unit))
    thresholds = GroupThresholds(groups, levels, begins, lower_is_positive)
    sign = -1.0 if lower_is_positive else 1.0
    for code, column in zip("SWA", begins.T, strict=True):
        np.testing.assert_array_equal(thresholds.columns[code], sign * column)
    scores = np.array([2.0, 1.0, np.nextafter(1.0, 0), -1.0, np.nextafter(-1.0, 0), np.nan] * 2)
    names = [*["", "unheard of"] * 3, *["G"] * 6]
    batch = pa.record_batch([pa.array(names)], ["gene"])
    chunk = Chunk(batch, np.zeros(len(scores), np.int8), 0, 0, "", 0)
    rows, column = ScoredChunk(found[0].sketch, chunk, scores), thresholds.evidence()
    none = "indeterminate"
    assert column.array(rows, rows.scored).to_pylist() == [
        *("strong", "weak", none, "against", none, None),
        *("weak", none, none, none, none, None),
    ]


def test_points_are_ranges_as_excalibr_has_them(found):
    document = Thresholds.from_calibration(*found, ACMG, True).to_json(ABOUT)
    keys = {"prior", "point_ranges", "dataset", "scoreset_flipped", "uncalibratable_reason"}
    assert keys <= document.keys()
    assert list(document["point_ranges"]) == [str(p) for p in (*range(1, 9), *range(-1, -9, -1))]
    ranges = {int(k): v[0] for k, v in document["point_ranges"].items() if v}
    assert ranges[1][0] == ranges[2][1]  # low scores are positive here, as in most assays
    assert ranges[-1][1] == ranges[-2][0]
    assert ranges[max(ranges)][0] is None
    assert ranges[min(ranges)][1] is None
    assert document["scoreset_flipped"] is False
    assert document["uncalibratable_reason"] is None
    json.dumps(document, allow_nan=False)
    levels = {row["level"]: row for row in document["levels"]}
    assert np.nextafter(levels["PP3_Moderate"]["score_from"], np.inf) == ranges[2][1]


def test_no_level_is_said_in_words():
    rng = np.random.default_rng(1)
    calibration = calibrate(
        Sketch.from_samples(rng.random(50), rng.random(50)), Shares(0.3, 0.9, False)
    )
    held = bounds(calibration, 0)
    thresholds = Thresholds.from_calibration(calibration, held, ACMG)
    document = thresholds.to_json(ABOUT)
    assert "no level" in document["uncalibratable_reason"]
    assert not any(document["point_ranges"].values())


def test_levels_are_for_these_rows_unless_another_population_is_stated(found):
    alpha = found[0].shares.alpha
    own, stated, other = (
        Thresholds.from_calibration(*found, Grading.read("acmg", target)).levels
        for target in (None, alpha, 0.01)
    )
    assert own == stated != other


def test_uncertain_shares_enter_through_the_densities_only(found):
    """Where every likely α and β gives the same f1 and f0, bounds are those of certain ones."""
    calibration, held = found
    certain = held.at(0.0441)
    sketch = calibration.sketch
    same = calibrate(sketch, Shares(0.3, 0.9, False, draws=((0.3, 0.9),) * 5))
    np.testing.assert_allclose(bounds(same, 0).at(0.0441), certain, rtol=0.05)


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


def test_bounds_reach_zero_and_one_where_rows_are_few(found):
    calibration, held = found
    (low, high), (own_low, own_high) = held.lr, held.posterior
    assert (low[0], own_low[0]) == (0, 0)
    assert (high[-1], own_high[-1]) == (np.inf, 1)
    assert 0 < own_low[len(low) // 2] < own_high[len(low) // 2] < 1
    for bounds_on in (low, high, own_low, own_high):
        assert (np.diff(bounds_on[np.isfinite(bounds_on)]) >= 0).all()
    wider = widen(held, calibration, np.full(len(low), 2.0))
    assert (wider.posterior[0] <= own_low).all()
    assert (wider.posterior[1] >= own_high).all()
    same = widen(held, calibration, np.ones(len(low)))
    np.testing.assert_allclose(same.posterior, held.posterior, atol=1e-12)
    np.testing.assert_allclose(same.lr[0], low)


@pytest.mark.ci
def test_bounds_hold_as_often_as_they_say():
    """At five scores of forty samples, α and β known: about one bound in twenty fails."""
    x = np.array([-0.5, 0.25, 1.0, 1.75, 2.5])
    missed = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        sketch = Sketch.from_samples(scores_of(rng, 600, 0.9), scores_of(rng, 2000, 0.3))
        low, high = bounds(calibrate(sketch, KNOWN), 0).lr
        cells = sketch.cell_index(x)
        missed += [*(low[cells] > np.exp(2 * x - 2)), *(high[cells] < np.exp(2 * x - 2))]
    assert 0.01 < np.mean(missed) < 0.08


# Rows in groups


def in_genes(rng, n, share, genes, alike):
    """Scores and genes: of their variance, `alike` is between genes; classes are alike too."""
    gene = rng.integers(genes, size=n)
    effect, leaning = rng.normal(size=(2, genes))
    latent = np.sqrt(0.5) * leaning[gene] + np.sqrt(0.5) * rng.normal(size=n)
    positive = latent < np.quantile(latent, share)
    noise = np.sqrt(alike) * effect[gene] + np.sqrt(1 - alike) * rng.normal(size=n)
    return 2 * positive + noise, gene


@pytest.fixture(scope="module")
def genes():
    rng = np.random.default_rng(3)
    x, gene = in_genes(rng, 1000, 0.9, 40, 0.6)
    y, other = in_genes(rng, 4000, 0.2, 40, 0.6)
    sets = np.repeat([1, 0], [1000, 4000]).astype(np.int8)
    return np.concatenate([x, y]), sets, np.concatenate([gene, other])


def width(scores, sets, names):
    calibration = calibrate(Sketch.from_rows(scores, sets), Shares(0.2, 0.9, from_these_rows=False))
    copies = GroupCopies.from_rows(scores, sets, pa.array(list(map(str, names))))
    low, high = bounds(calibration, 0, copies).posterior
    return (high - low).mean()


def test_bounds_are_wider_where_rows_of_a_group_are_alike(genes):
    scores, sets, gene = genes
    alike = width(scores, sets, gene)
    alone = width(scores, sets, np.arange(len(scores)))
    shuffled = width(scores, sets, np.random.default_rng(0).permutation(gene))
    assert alike > 1.4 * shuffled
    assert shuffled < 1.3 * alone


@pytest.mark.parametrize("smooth", [False, pytest.param(True, marks=pytest.mark.ci)])
def test_bounds_by_group_are_numbers_for_both_calibrators(genes, smooth):
    scores, sets, gene = genes
    calibration = calibrate(Sketch.from_rows(scores, sets), Shares(0.2, 0.9), smooth)
    copies = GroupCopies.from_rows(scores, sets, pa.array(list(map(str, gene))))
    by_row, by_group = (bounds(calibration, 0, of) for of in (None, copies))
    for narrow, wide in zip(
        (*by_row.lr, *by_row.posterior), (*by_group.lr, *by_group.posterior), strict=True
    ):
        assert not np.isnan(wide).any()
        assert np.isinf(wide[np.isinf(narrow)]).all()
    assert (by_group.posterior[0] <= by_row.posterior[0] + 1e-12).all()
    assert (by_group.posterior[1] >= by_row.posterior[1] - 1e-12).all()


def test_groups_may_come_in_any_parts(genes):
    scores, sets, gene = genes
    names = pa.array([f"gene {g}" for g in gene])
    whole = GroupCopies.from_rows(scores, sets, names)
    cuts = [slice(0, 700), slice(700, 701), slice(701, None)]
    parts = [GroupCopies.from_rows(scores[c], sets[c], names[c]) for c in cuts]
    merged = GroupCopies.merge([parts[2], GroupCopies.merge([parts[0], parts[1]])])
    np.testing.assert_array_equal(merged.wide.edges, whole.wide.edges)
    np.testing.assert_array_equal(merged.wide.counts, whole.wide.counts)
    assert len(whole.wide.edges) <= 512
    rows, copies = whole.sketches(Sketch.from_rows(scores, sets))
    assert rows.n_labeled == 1000
    assert len(copies) == 100
    assert np.mean([copy.n_unlabeled for copy in copies]) == pytest.approx(4000, rel=0.06)
    assert whole.notices == ()
    few = GroupCopies.from_rows(scores, sets, pa.array([f"{g % 7}" for g in gene]))
    assert [notice.code for notice in few.notices] == ["few-groups"]
    assert "7 groups" in few.notices[0].message


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


def test_smooth_posteriors_lie_within_their_own_bounds():
    rng = np.random.default_rng(0)
    targets = np.concatenate([rng.normal(0, 1, 400), rng.normal(3, 1, 200)])
    sketch = Sketch.from_samples(rng.normal(0, 1, 400), targets)
    sketch = dataclasses.replace(sketch, labeled_class="negative")
    calibration = calibrate(sketch, Shares(1 / 3, 0.0, from_these_rows=False), smooth=True)
    for values, name in ((calibration.posterior, "posterior"), (calibration.lr, "lr")):
        low, high = getattr(bounds(calibration, 0), name)
        assert ((low <= values) & (values <= high)).all()
        assert (low < high).mean() > 0.9
