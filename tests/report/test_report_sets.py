"""Reports of known negatives, of runs without unlabeled rows, and of labeled negatives."""

import re

import numpy as np
import pandas as pd
import pytest
import report_samples as samples
from msgspec.structs import replace as changed
from report_samples import Outline, data_of, render, section

from pu_noise_cli.report.figures import histogram_lines
from pu_noise_cli.report.page import Page
from pu_noise_cli.score.sketch import Sketch
from pu_noise_cli.tables.rows import NEGATIVE

ALPHA, BETA = 0.2, 0.9


def with_negatives() -> Page:
    found = samples.with_negatives()
    return samples.content_of(found, samples.prior(found))


def without_unlabeled(alpha: float = ALPHA, beta: float = BETA) -> Page:
    found = samples.without_unlabeled()
    return samples.content_of(found, samples.stated(found, alpha, beta))


def of_decoys() -> Page:
    return samples.content_of(samples.decoys(), samples.prior_of_decoys())


def distributions(content: Page) -> list:
    return content.charts["scores"]


def reliability(content: Page) -> pd.DataFrame:
    """What the chart of the calibration shows."""
    return pd.DataFrame(samples.chart(content, "calibration").rows)


def sections(page: str) -> list[str]:
    return re.findall(r'<section id="([a-z]+)"', page)


# Known negatives


def test_known_negatives_are_drawn_as_a_line_of_their_own():
    content = with_negatives()
    known = np.repeat(content.values["sketch"].scores, content.values["sketch"].negative)
    for chart, other in zip(distributions(content), ("labeled", "unlabeled"), strict=True):
        ends = [*(row["low"] for row in chart.rows), chart.rows[-1]["high"]]
        expected = np.histogram(known, ends)[0] / len(known)
        assert [row["known"] for row in chart.rows] == pytest.approx(expected, abs=1e-6)
        assert chart.columns["known"] == "known negatives"
        assert "known negatives" in chart.alt
        layers = chart.spec()["layer"]
        encoding = chart.spec()["encoding"]
        assert encoding["fill"]["scale"]["domain"] == ["positives", "negatives"]
        for channel in ("stroke", "strokeDash"):  # told apart without its color, too
            scale = encoding[channel]["scale"]
            assert scale["domain"] == [f"{other} rows", "known negatives"]
            assert scale["range"][0] != scale["range"][1]
        assert "known negatives" in [tip["title"] for tip in layers[-1]["encoding"]["tooltip"]]
    page = render(content)
    assert "known negatives" in section(page, "scores")
    assert "known negatives 200" in section(page, "provenance")


def test_without_known_negatives_nothing_is_said_of_them():
    page = samples.page()
    assert "known negatives" not in page.split("</style>")[1]
    assert "known" not in data_of(page)["scores-labeled"]["datasets"]["rows"][0]


def test_labeled_rows_are_compared_with_known_negatives_too():
    content = with_negatives()
    sketch, said = content.values["sketch"], section(render(content), "reviewers")
    aucs = (sketch.auc, sketch.auc_against(NEGATIVE), content.values["prior"].auc)
    assert re.findall(r"AUC (\d\.\d+)", content.charts["roc"][0].alt) == [
        f"{auc:.3f}" for auc in aucs
    ]
    assert f"{aucs[1]:.3f}" in said


def test_rows_that_only_negatives_score_like_leave_the_calibration_whole():
    content = with_negatives()
    sketch, groups = content.values["sketch"], reliability(content)
    assert sketch.unlabeled[-1] == sketch.labeled[-1] == 0, "such as the highest"
    assert groups["rows"].sum() == sketch.n_labeled + sketch.n_unlabeled
    assert np.isfinite(groups).all(axis=None)


# Without unlabeled rows


def test_a_report_without_unlabeled_rows_has_what_can_be_told():
    page = render(without_unlabeled())
    assert sections(page) == [
        *("usable", "answer", "next", "candidates", "labels", "scores", "reviewers"),
        *("provenance", "methodstext", "cite"),
    ]
    assert list(data_of(page)) == [
        *("scores-population", "scores-labeled", "posterior-by-score", "roc", "calibration")
    ]
    said = Outline(page).text
    for text in ("You stated", "20.0%", "90.0%", "300 labels", "nothing here checks"):
        assert text in said
    assert "0 unlabeled" not in said
    assert "estimated" not in section(page, "answer")


def test_the_population_is_a_mixture_with_the_stated_share():
    content = without_unlabeled()
    population, labeled = distributions(content)
    for chart, share in ((population, ALPHA), (labeled, BETA)):
        assert sum(row["total"] for row in chart.rows) == pytest.approx(1, abs=1e-3)
        assert sum(row["positive"] for row in chart.rows) == pytest.approx(share, abs=0.03)
    mixed = ALPHA / BETA
    for row in population.rows:
        mixture = mixed * row["labeled"] + (1 - mixed) * row["known"]
        assert row["total"] == pytest.approx(mixture, abs=1e-5)
    assert "unlabeled" not in labeled.columns, "there is no line of unlabeled rows"


def test_few_positives_of_a_population_are_drawn_enlarged():
    content = without_unlabeled(alpha=0.002)
    assert [chart.name for chart in distributions(content)] == [
        *("scores-population", "positives-population", "scores-labeled")
    ]
    assert "too few" in section(render(content), "scores")


def test_the_calibration_without_unlabeled_rows_is_against_negatives():
    groups = reliability(without_unlabeled())
    assert groups["rows"].sum() == 500
    predicted = groups["predicted"]
    assert ((groups["low"] <= predicted) & (predicted <= groups["high"])).mean() > 0.8
    assert predicted.iloc[0] < 0.3
    assert predicted.iloc[-1] > 0.9


@pytest.mark.parametrize("target", [None, 0.05])
def test_rows_that_pass_are_counted_by_set(target):
    found = samples.without_unlabeled()
    content = samples.content_of(found, samples.stated(found, ALPHA, BETA), target)
    assert content.values["population_alpha"] == (target or ALPHA)
    by_fdr = content.values["calls_by_fdr"]
    for calls in (*content.values["calls_by_posterior"], *by_fdr):
        lowest = calls.lowest_score
        called = found.scores >= (np.inf if lowest is None else lowest)
        assert calls.labeled == found.labeled[called].sum()
        assert calls.negative == found.negative[called].sum()
        assert calls.unlabeled == 0
    assert max(calls.labeled for calls in by_fdr) > 0


@pytest.fixture
def without(punoise, frames, tmp_path):
    """The directory of a run on labeled rows and known negatives."""
    labeled, unlabeled = frames
    labeled.to_csv(tmp_path / "labeled.csv", index=False)
    unlabeled.iloc[200:].to_csv(tmp_path / "negatives.csv", index=False)
    tables = ("--labeled", tmp_path / "labeled.csv", "--negatives", tmp_path / "negatives.csv")
    fast = ("--classifier", "logistic", "--out-dir", tmp_path / "run")
    said = punoise("run", *tables, "--alpha", 0.1, "--beta", 0.95, *fast).err
    assert re.search(r"^alpha +10\.0%", said, re.MULTILINE)
    assert "calls" not in said
    return tmp_path / "run"


def test_the_files_of_a_run_without_unlabeled_rows_are_read_by_the_others(punoise, without):
    common = ("--scores", without / "scores.parquet", "--prior", without / "prior.json")
    again = without / "again.html"
    known = ("--provenance", without / "provenance.json", "--out", again)
    punoise("report", *common, *known)
    of_run = data_of((without / "report.html").read_text())
    assert data_of(again.read_text()) == of_run
    assert "columns" in of_run, "of columns.tsv beside the provenance"
    refused = punoise("audit", *common, "--out", without / "a.tsv", expect=3)
    assert "no unlabeled rows" in refused.err


def test_a_posterior_for_another_population_is_distinguished_from_the_stated_one():
    found = samples.without_unlabeled()
    page = render(samples.content_of(found, samples.stated(found, ALPHA, BETA), 0.3))
    for name in ("answer", "scores", "candidates"):
        assert "30.0%" in section(page, name)
    assert "20.0%" in section(page, "answer")


# Labeled negatives


def test_a_report_of_labeled_negatives_says_so():
    content = of_decoys()
    page = render(content)
    prior, said = content.values["prior"], Outline(page).text
    assert f"rows are positive ({100 * prior.alpha:.1f}%;" in said
    assert "400 labeled negatives" in said
    assert "truly negative" in said
    assert "truly positive" not in said
    assert "α >= " in said, "of the bounds, the one that these labels give"
    assert "labeled as negatives 400" in section(page, "provenance")
    assert "1 − β for" in section(page, "scores")
    assert "can be negative" in section(page, "reviewers")


def test_what_is_assumed_of_labeled_negatives_is_of_the_bottom():
    content = of_decoys()
    (chart,) = content.charts["assumption"]
    spec = chart.spec()
    assert "negatives" in spec["encoding"]["x"]["title"]
    assert "lowest-scoring" in chart.alt
    highest = [row["high"] for row in chart.rows]
    assert highest[-1] < highest[0], "the more negatives, the lower α can be at most"
    page = render(content)
    assert "lowest-scoring labeled rows" in page
    assert "best" not in section(page, "assumption") + section(page, "answer")
    (used,) = spec["datasets"]["assumed"]
    assert used["purity"] == pytest.approx(content.values["prior"].assumed.purity, abs=1e-5)
    assert used["purity"] in [row["purity"] for row in chart.rows], "on the same scale"


def turned(found: Sketch) -> Sketch:
    """The same rows, scored the other way round."""
    scores = [np.repeat(1 - found.scores, rows) for rows in (found.labeled, found.unlabeled)]
    return Sketch.from_samples(*scores)


def test_labeled_negatives_are_labeled_positives_turned_round():
    plain = samples.sketch()
    theirs = samples.content_of(plain, samples.stated(plain, 0.3, BETA))
    other = turned(plain)
    ours = samples.content_of(other, samples.stated(other, 0.7, BETA, labeled_negatives=True))
    for mine, chart in zip(distributions(ours), distributions(theirs), strict=True):
        other = "labeled" if "unlabeled" in chart.name else "unlabeled"
        for here, there in (("positive", "negative"), ("negative", "positive"), (other, other)):
            heights = [row[there] for row in reversed(chart.rows)]
            assert [row[here] for row in mine.rows] == pytest.approx(heights, abs=0.02)
    alts = [chart.alt.replace("\u00a0", " ") for chart in distributions(ours)]
    assert "positives, 70.0% of the area" in alts[0]
    assert "positives, 10.0% of the area" in alts[1]
    mine, chart = (content.charts["roc"][0] for content in (ours, theirs))
    assert re.findall(r"AUC [\d.]+", mine.alt) == re.findall(r"AUC [\d.]+", chart.alt)
    observed = [row for row in mine.rows if "observed" in row["curve"]]
    assert np.mean([row["y"] >= row["x"] - 0.02 for row in observed]) > 0.95, "above the diagonal"
    predicted = [reliability(content)["predicted"].to_numpy() for content in (ours, theirs)]
    assert predicted[0][::-1] == pytest.approx(predicted[1], abs=0.03)


def test_the_elbow_of_labeled_negatives_is_on_the_curve_of_their_class():
    content = of_decoys()
    chart = content.charts["curves"][0]
    (point,) = chart.more_rows["points"]
    assert "elbow" in point["mark"]
    # at most 70% of the unlabeled rows are as the labeled negatives are
    assert 0.5 < point["x"] < 0.85


def test_labels_to_check_of_labeled_negatives_are_those_that_score_highest(punoise, tmp_path):
    found = samples.decoys()
    frame = pd.DataFrame(
        {
            "id": [f"r{i}" for i in range(1400)],
            "set": np.repeat(["labeled", "unlabeled"], [400, 1000]),
            "score": np.concatenate(
                [np.repeat(found.scores, n) for n in (found.labeled, found.unlabeled)]
            ),
        }
    )
    frame.to_csv(tmp_path / "s.tsv", sep="\t", index=False)
    source = ("--scores", tmp_path / "s.tsv")
    known = ("--labeled-are", "negatives", "--beta", 0.95, "--out", tmp_path / "p.json")
    punoise("estimate-prior", *source, *known)
    common = (*source, "--prior", tmp_path / "p.json")
    punoise("posterior", *common, "--out", tmp_path / "q.tsv")
    punoise("report", *common, "--out", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    rows = page.split('id="labels"')[1].split("</section>")[0].split("<tr>")[2:]
    listed = [re.findall(r"<bdi>(r\d+)</bdi>", row)[0] for row in rows]
    correct = [float(re.findall(r">([\d.e-]+)</td>", row)[-1]) for row in rows]
    labeled = pd.read_csv(tmp_path / "q.tsv", sep="\t").query("set == 'labeled'")
    highest = labeled.sort_values("score", ascending=False, kind="stable").head(20)
    assert listed == highest["id"].tolist()
    assert correct == pytest.approx(highest["posterior_labeled"].tolist(), abs=1e-3)
    assert correct == sorted(correct, reverse=True)
    assert "to be negative" in section(page, "labels")


# The terminal


def test_a_stated_prior_of_unlabeled_rows_is_not_called_an_estimate():
    found = samples.sketch()
    page = render(samples.content_of(found, samples.stated(found, 0.3, BETA)))
    assert "You stated that 30.0%" in Outline(page).text
    assert not {"methods-alpha", "likelihood-alpha-plus"} & set(data_of(page))
    assert "posteriors" in data_of(page)


def test_the_terminal_shows_the_samples_that_there_are():
    names = [line.split()[0] for line in histogram_lines(samples.with_negatives())[:3]]
    assert names == ["unlabeled", "labeled", "negatives"]
    lines = histogram_lines(samples.without_unlabeled(), width=40)
    assert [line.split()[0] for line in lines[:2]] == ["labeled", "negatives"]
    assert [len(line) for line in lines] == [51, 51, 51]


def test_where_nothing_is_assumed_it_is_of_the_right_end():
    content = of_decoys()
    prior = content.values["prior"]
    assumed = changed(prior.assumed, purity=0.0)
    page = render(samples.content_of(samples.decoys(), changed(prior, assumed=assumed)))
    assert "lowest-scoring rows" in section(page, "answer")
