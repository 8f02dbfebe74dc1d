"""The report: what stands in it, what it leaves out, its size, and its figures."""

import json
import os
import pty
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import report_samples as samples
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as changed
from report_samples import Outline, data_of

from pu_noise_cli.cli import process as cli
from pu_noise_cli.errors import InputError
from pu_noise_cli.notices import KINDS, Notice
from pu_noise_cli.posterior.table import TARGET_ALPHA, DoubtfulRows
from pu_noise_cli.prior.base import Settings
from pu_noise_cli.prior.document import Prior, parse_prior
from pu_noise_cli.prior.estimation import estimate_prior
from pu_noise_cli.prior.summary import certainty, summarize_prior
from pu_noise_cli.report import content as text
from pu_noise_cli.report.charts import NO_ESTIMATE, REPORT, ForestLine, distributions, forest
from pu_noise_cli.report.comparison import comparison_charts, render_comparison
from pu_noise_cli.report.content import (
    PosteriorCurve,
    Provenance,
    SuspiciousLabel,
    observed_roc,
    passing_fdr,
    passing_posterior,
    recovered_roc,
    score_bins,
    suspicious_labels,
)
from pu_noise_cli.report.page import command_words, render, sample_charts
from pu_noise_cli.report.terminal import PLAIN_BLOCKS, histogram_lines
from pu_noise_cli.score.sketch import Sketch

FAST = ("--classifier", "logistic")
MOST_BYTES = 1_500_000
ASSETS = Path(cli.__file__).parent / "report" / "assets"


# Content


def test_sections_stand_in_the_order_of_their_weight():
    page = render(samples.content(method="all"))
    assert re.findall(r'<section id="([a-z]+)"', page) == [
        *("answer", "warnings", "assumption", "scores", "roc", "curves", "methods", "posterior"),
        *("labels", "data", "provenance"),
    ]
    assert list(data_of(page)) == [
        *("assumption", "scores-unlabeled", "scores-labeled", "roc"),
        *("likelihood-alpha-plus", "likelihood-beta-plus", "methods-alpha", "methods-beta"),
        *("calibration", "posterior-by-score", "posteriors"),
    ]


def test_the_answer_is_a_sentence_with_intervals():
    content = samples.content()
    answer = content.answer
    said = Outline(render(content)).text
    assert f"An estimated {100 * answer.alpha:.1f} % of the 1,000 unlabeled rows are" in said
    assert (
        f"95 % interval {100 * answer.alpha_ci[0]:.1f} % to {100 * answer.alpha_ci[1]:.1f}" in said
    )
    assert "of the 300 labeled rows truly are" in said


# What is certain, what is assumed


def assuming(**settings) -> Prior:
    return estimate_prior(samples.sketch(), "auto", Settings(**settings))


def listed(prior: Prior) -> list[str]:
    """The lines on certainty in the answer section."""
    page = render(samples.content_of(samples.sketch(), prior))
    section = page.split('<section id="answer"')[1].split("</section>")[0]
    return [Outline(item).text for item in re.findall(r"<li>(.*?)</li>", section)]


def test_the_answer_says_what_is_certain_what_is_likely_and_what_would_narrow_it():
    prior = samples.prior(samples.sketch())
    certain, likely, narrower = listed(prior)
    highest, lowest = f"{100 * prior.alpha_max:.1f} %", f"{100 * prior.beta_min:.1f} %"
    assert certain.startswith("Certain, at 95 % confidence:")
    assert f"α is at most {highest} and β at least {lowest}, however" in certain
    assert "given that at least 30 % of the unlabeled rows that score like the best" in likely
    assert re.search(r"if β is at least 90 %, α is in \[\d+\.\d %, \d+\.\d %\]; 100", narrower)
    assert re.search(r"would give α ± \d+ %\.$", narrower)


def test_likely_is_what_the_stated_knowledge_makes_it():
    both = listed(assuming(alpha_between=(0.2, 0.4)))[1]
    assert "given that α is between 20.0 % and 40.0 %, and that at least 30 %" in both
    assert "assume nothing of the best-scoring rows" in listed(assuming(purity=0.0))[1]
    against = listed(assuming(alpha_between=(0.8, 0.9)))[1]
    assert "the scores contradict what was to be assumed" in against
    assert "α is between" not in against
    assert "sampling error only" in listed(samples.prior(samples.sketch(), "msgmm"))[1]


def test_scores_that_tell_nothing_make_nothing_certain_or_likely():
    rng = np.random.default_rng(3)
    alike = Sketch.from_samples(rng.random(300), rng.random(1000))
    content = samples.content_of(alike, samples.prior(alike))
    page = render(content)
    assert sample_charts(content)["assumption"] == []
    assert 'id="assumption"' not in page
    assert "Likely:" not in page
    assert "Certain" not in page


def test_console_and_report_say_the_same_of_what_is_certain():
    prior = samples.prior(samples.sketch())
    assert [" ".join(re.findall("[a-z]{3,}", text)) for text in certainty(prior).values()] == [
        " ".join(re.findall("[a-z]{3,}", text.replace("α", "alpha").replace("β", "beta")))
        for text in certainty(prior, REPORT).values()
    ]


def test_the_chart_of_the_assumption_shows_the_interval_at_each_purity():
    prior = samples.prior(samples.sketch())
    (chart,) = sample_charts(samples.content_of(samples.sketch(), prior))["assumption"]
    assert [row["purity"] for row in chart.rows] == pytest.approx(np.arange(10) / 10)
    ends = [(row["low"], row["high"]) for row in chart.rows]
    assert ends[3] == pytest.approx(prior.answer.alpha_ci, rel=1e-5)
    for purity, end in ((0.0, ends[0]), (0.7, ends[7])):
        assert assuming(purity=purity).answer.alpha_ci == pytest.approx(end, rel=1e-5)
    assert [low for low, _ in ends] == sorted(low for low, _ in ends)
    marks = [layer["data"]["values"] for layer in chart.spec()["layer"] if "data" in layer]
    assert marks == [[{"purity": 0.3}]]


def test_a_purity_between_the_others_is_drawn_too():
    prior = assuming(purity=0.95)
    (chart,) = sample_charts(samples.content_of(samples.sketch(), prior))["assumption"]
    last = chart.rows[-1]
    assert last["purity"] == 0.95
    assert (last["low"], last["high"]) == pytest.approx(prior.answer.alpha_ci, rel=1e-5)


def test_where_nothing_is_assumed_nothing_is_marked():
    content = samples.content_of(samples.sketch(), assuming(purity=0.0))
    (chart,) = sample_charts(content)["assumption"]
    assert not any("data" in layer for layer in chart.spec()["layer"])
    assert "assumes nothing of them (the left end)" in Outline(render(content)).text


def test_scores_that_separate_little_are_drawn_at_the_purity_that_is_assumed_of_them():
    rng = np.random.default_rng(0)
    weak = Sketch.from_samples(rng.normal(0.25, 1, 2000), rng.normal(0, 1, 5000))
    prior = samples.prior(weak)
    assert prior.answer.assumed.purity < 0.29
    (chart,) = sample_charts(samples.content_of(weak, prior))["assumption"]
    assert chart.rows[3]["purity"] == pytest.approx(prior.answer.assumed.purity, rel=1e-5)
    assert len(chart.rows) == 10


def test_a_contradicted_purity_is_not_marked_as_assumed():
    prior = samples.prior(samples.sketch())
    notice = Notice("assumption-contradicted", "the scores contradict it")
    content = samples.content_of(samples.sketch(), changed(prior, notices=(notice,)))
    (chart,) = sample_charts(content)["assumption"]
    assert not any("data" in layer for layer in chart.spec()["layer"])
    said = Outline(render(content)).text
    assert "That at least 30 % of them are contradicts the scores and was not used" in said


def test_there_is_no_chart_of_what_is_not_assumed_or_not_known():
    found = samples.sketch()
    prior = samples.prior(found)
    few = changed(prior.assumed, sensitivity=prior.assumed.sensitivity[:2])
    for known in (
        samples.prior(found, "msgmm"),
        changed(prior, assumed=few),
        changed(prior, n_labeled=5),  # of other rows
    ):
        page = render(samples.content_of(found, known))
        assert 'id="assumption"' not in page
        assert "data-assumption" not in page


def test_the_whole_assumption_stands_in_the_provenance():
    prior = samples.prior(samples.sketch())
    page = render(samples.content_of(samples.sketch(), prior))
    section = page.split('<section id="provenance"')[1].split("</section>")[0]
    assert prior.answer.assumed.words in section


def with_alpha(prior: Prior, alpha: float, interval: tuple[float, float]) -> Prior:
    """The prior with another α, of the answer and of `auto`."""
    estimates = tuple(
        changed(e, alpha=alpha, alpha_ci=interval) if e.method == "auto" else e
        for e in prior.estimates
    )
    return changed(prior, alpha=alpha, alpha_ci=interval, estimates=estimates)


def test_a_lower_end_that_is_next_to_nothing_is_shown_as_nothing():
    content = samples.content(method="all")
    known = with_alpha(content.prior, 0.1, (0.0049, 0.2))
    page = render(replace(content, prior=known))
    assert "0.0049" not in page.split("</main>")[0]
    assert "0.49\u00a0%" not in page
    said = Outline(page).text
    assert "95 % interval 0 % to 20.0 %" in said
    assert "about 100 positives, between 0 and 200" in said
    assert "0.1000 [0, 0.2000]" in said
    drawn = {row["label"]: row for row in data_of(page)["methods-alpha"]["spec"]["data"]["values"]}
    assert drawn["auto"]["low"] == 0
    seen = changed(known, alpha_ci=(0.0051, 0.2))
    assert "0.51\u00a0% to" in render(replace(content, prior=seen))


def test_a_sharp_interval_of_a_small_share_is_shown_as_it_is():
    content = samples.content()
    known = with_alpha(content.prior, 0.0038, (0.0033, 0.0044))
    assert any("0.0038 [0.0033, 0.0044]" in line for line in summarize_prior(known))
    said = Outline(render(replace(content, prior=known))).text
    assert "95 % interval 0.33 % to 0.44 %" in said
    assert "about 4 positives, between 3 and 4" in said


# Warnings


def test_a_warning_comes_with_its_meaning_and_remedy():
    said = Outline(render(samples.content())).text
    assert KINDS["few-rows"].meaning in said
    assert KINDS["few-rows"].remedy in said
    assert KINDS["leaking-column"].remedy in said, "warnings of the transform count too"


def test_a_warning_of_another_version_is_shown_all_the_same():
    content = samples.content()
    known = changed(content.prior, notices=(Notice("of-tomorrow", "the moon is full"),))
    for page in (
        render(replace(content, prior=known, provenance=None)),
        render_comparison([samples.Sample("a", known)]),
    ):
        assert "of-tomorrow" in page
        assert "A warning of another version of punoise." in page
    assert "the moon is full" in render(replace(content, prior=known))


def test_the_page_can_explain_every_warning_of_the_package():
    """A kind of warning is declared where it is raised: the page must import all such modules."""
    code = """
import importlib, json, pkgutil, sys
import pu_noise_cli
from pu_noise_cli.notices import KINDS
for name in sys.argv[1:] or [
    module.name for module in pkgutil.walk_packages(pu_noise_cli.__path__, "pu_noise_cli.")
    if not module.name.endswith("__main__")
]:
    importlib.import_module(name)
print(json.dumps(sorted(KINDS)))
"""

    def declared(*modules: str) -> list[str]:
        command = [sys.executable, "-c", code, *modules]
        found = subprocess.run(command, capture_output=True, check=True, text=True).stdout
        return json.loads(found)

    everything = declared()
    assert {"few-rows", "not-converged", "leaking-column", "bad-input"} <= set(everything)
    assert declared("pu_noise_cli.report.page") == everything


@pytest.mark.parametrize(
    ("alpha", "interval", "beta_ci", "calm"),
    [
        (0.3, (0.25, 0.35), (0.85, 0.95), True),
        (0.3, (0.05, 0.36), (0.85, 0.95), False),  # wider than the estimate
        (0.6, (0.3, 0.75), (0.85, 0.95), False),  # wider than 0.4
        (0.3, (0.25, 0.35), (0.5, 1.0), False),
        (0.3, None, None, False),
    ],
)
def test_comfort_is_given_only_where_the_intervals_allow_it(alpha, interval, beta_ci, calm):
    content = samples.content()
    answer = replace(content.answer, alpha=alpha, alpha_ci=interval, beta=0.9, beta_ci=beta_ci)
    known = changed(content.prior, answer=answer, notices=())
    page = render(replace(content, prior=known, provenance=None))
    section = page.split('<section id="warnings"')[1].split("</section>")[0]
    assert ("nothing unusual" in section) == calm
    assert ('class="good"' in page) == calm
    assert "No warnings" in section
    is_wide = not calm and interval is not None
    assert ("wide. Where positives and negatives overlap" in page) == is_wide


@pytest.mark.parametrize("code", ["wide-interval", "methods-disagree", "assumption-contradicted"])
def test_no_comfort_is_given_beside_a_warning(code):
    assert code in KINDS
    content = samples.content()
    answer = replace(content.answer, alpha=0.3, alpha_ci=(0.25, 0.35), beta_ci=(0.85, 0.95))
    known = changed(content.prior, answer=answer, notices=(Notice(code, "it is so"),))
    page = render(replace(content, prior=known, provenance=None))
    assert "nothing unusual" not in page
    assert 'class="good"' not in page
    assert KINDS[code].remedy in Outline(page).text


def test_components_add_up_to_alpha_and_beta():
    content = samples.content()
    answer = content.answer
    for chart, share in zip(distributions(content), (answer.alpha, answer.beta), strict=True):
        assert sum(row["positive"] for row in chart.rows) == pytest.approx(share, abs=0.01)
        assert sum(row["total"] for row in chart.rows) == pytest.approx(1, abs=1e-3)
        for row in chart.rows:
            assert row["positive"] + row["negative"] == pytest.approx(row["total"], abs=1e-5)


def test_few_positives_are_drawn_enlarged():
    found = samples.few_positives()
    plain, enlarged, labeled = distributions(samples.content_of(found, samples.prior(found)))
    assert (plain.name, labeled.name) == ("scores-unlabeled", "scores-labeled")
    tallest = max(row["positive"] for row in enlarged.rows)
    assert tallest < 0.05 * max(row["total"] for row in plain.rows), "they could not be seen"
    scales = [layer["encoding"]["y"].get("scale") for layer in enlarged.spec()["layer"][:2]]
    for scale in scales:
        low, high = scale["domain"]
        assert low == 0
        assert tallest <= high <= 2 * tallest, "now the tallest fills half of the chart or more"
    assert len(distributions(samples.content())) == 2, "many positives need no enlarging"


def test_an_axis_of_scores_has_the_name_of_its_column():
    document = samples.provenance_json()
    titles = {
        "score": document | {"score_column": None},
        "REVEL": document | {"score_column": "REVEL"},
        "SIFT (opposite sign)": document
        | {"score_column": "SIFT", "options": {"lower_is_positive": True}},
        "a\\u202eb": document | {"score_column": "a\u202eb"},
    }
    for title, made_of in titles.items():
        content = replace(samples.content(), provenance=Provenance.of("p.json", made_of))
        drawn = sample_charts(content)
        for chart in (*drawn["scores"], drawn["posterior"][1]):
            layers = chart.spec()["layer"]
            assert {layer["encoding"]["x"]["title"] for layer in layers} == {title}


def test_the_name_of_a_score_column_comes_from_the_run(punoise, tables, tmp_path):
    options = ("--score-column", "a", "--lower-is-positive", "--out-dir", tmp_path / "run")
    punoise("run", *tables, *options)
    page = (tmp_path / "run" / "report.html").read_text()
    for name in ("scores-unlabeled", "scores-labeled", "posterior-by-score"):
        layers = data_of(page)[name]["spec"]["layer"]
        assert {layer["encoding"]["x"]["title"] for layer in layers} == {"a (opposite sign)"}


def test_the_posterior_by_score_has_a_band():
    content = samples.content()
    chart = sample_charts(content)["posterior"][1]
    widths = []
    for row in chart.rows:
        assert 0 <= row["low"] <= row["posterior"] <= row["high"] <= 1
        widths.append(row["high"] - row["low"])
    assert max(widths) > 0.05
    assert any(layer["mark"]["type"] == "area" for layer in chart.spec()["layer"])
    bare = replace(content, by_score=PosteriorCurve.of(content.calibration))
    without = sample_charts(bare)["posterior"][1]
    assert not any(layer["mark"]["type"] == "area" for layer in without.spec()["layer"])
    assert ("one-sided" in render(content), "one-sided" in render(bare)) == (True, False)


def test_roc_curves_enclose_about_the_areas_that_are_said():
    content = samples.content()
    seen, recovered = observed_roc(content.sketch), recovered_roc(content.calibration)
    assert np.trapezoid(seen.y, seen.x) == pytest.approx(content.sketch.auc, abs=0.003)
    area = np.trapezoid(recovered.y, recovered.x)
    assert area > content.sketch.auc
    assert area == pytest.approx(content.prior.auc, abs=0.05)


def test_there_is_one_auc_of_positives_against_negatives():
    content = samples.content()
    page = render(content)
    said = [f"{content.sketch.auc:.3f}", f"{content.prior.auc:.3f}"]
    section = page.split('<section id="roc"')[1].split("</section>")[0]
    assert re.findall(r'class="number">([\d.]+)<', section) == said
    assert re.findall(r"AUC (\d\.\d+)", section) == said, "nor in the text of the chart"


def test_the_elbow_is_alphamaxs_own_whatever_the_method():
    own = samples.content(method="all").prior.estimates["alphamax-n"]
    for method in ("all", "auto"):
        chart = sample_charts(samples.content(method=method))["curves"][0]
        points = chart.spec()["layer"][-1]["data"]["values"]
        elbow = next(p for p in points if "elbow" in p["mark"])
        assert elbow["x"] == pytest.approx(own.alpha_plus, abs=1e-5)


@pytest.mark.parametrize("target", [None, 0.05])
def test_counts_of_rows_that_pass_are_those_of_the_rows(target):
    found = samples.sketch()
    curve = samples.content_of(found, samples.prior(found), target).by_score
    for passing in passing_posterior(curve):
        rows = found.unlabeled[curve.posterior >= passing.level]
        assert passing.rows == rows.sum()
        assert passing.rows == 0 or passing.positive_share >= passing.level
    assert [passing.rows for passing in passing_fdr(curve)][-1] > 0
    for passing in passing_fdr(curve):
        if passing.rows:
            assert 1 - passing.positive_share <= passing.level
            called = found.scores >= passing.lowest_score
            assert passing.rows == found.unlabeled[called].sum()
    if target is None:  # the population is that of the rows, which can be counted
        for passing in passing_fdr(curve):
            called = found.scores >= (passing.lowest_score or np.inf)
            expected = found.unlabeled[called] @ curve.posterior[called]
            assert passing.positives == pytest.approx(expected)


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e6])
@pytest.mark.parametrize("n", [400, 40_000])
def test_bins_lose_no_row_of_any_range(scale, n):
    rng = np.random.default_rng(0)
    labeled, unlabeled = rng.normal(1, 1, n) * scale, rng.standard_t(2, 2 * n) * scale
    found = Sketch.from_samples(labeled, unlabeled)
    bins = score_bins(found)
    assert bins.labeled.sum() == pytest.approx(n)
    assert bins.unlabeled.sum() == pytest.approx(2 * n)
    inner = bins.edges[10:-10]
    counted = np.histogram(labeled, inner)[0]
    assert np.abs(bins.labeled[10:-10] - counted).max() <= max(5, 0.05 * counted.max())


@pytest.mark.parametrize(
    "scores",
    [
        [0.5] * 60,
        [1e300, -1e300] * 30,
        [1e-300, 2e-300, 3e-300] * 20,
        [0.0, 1.0] * 30,
        [-1.5, 7.25] * 30,
    ],
)
def test_odd_scores_make_a_page_all_the_same(scores, punoise, tmp_path):
    frame = pd.DataFrame({"id": range(60), "set": ["labeled", "unlabeled", "unlabeled"] * 20})
    frame.assign(score=scores).to_csv(tmp_path / "s.csv", index=False)
    punoise("estimate-prior", "--scores", tmp_path / "s.csv", "--out", tmp_path / "p.json")
    arguments = ("--scores", tmp_path / "s.csv", "--prior", tmp_path / "p.json")
    punoise("report", *arguments, "--out", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert "NaN" not in page.split("</main>")[0]
    assert data_of(page)


# Labels to check


@given(
    st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=60),
    st.integers(1, 70),
    st.integers(1, 12),
)
def test_doubtful_rows_do_not_depend_on_how_rows_come(rows, chunk, size):
    scores = np.array([score for score, _ in rows], float)
    labeled = np.array([is_labeled for _, is_labeled in rows])
    ids = pa.array([f"r{i}" for i in range(len(rows))])
    parts = []
    for start in range(0, len(rows), chunk):
        part = DoubtfulRows(size)
        piece = slice(start, start + chunk)
        part.add(ids[piece], scores[piece], labeled[piece], start)
        parts.append(part)
    expected = sorted((s, i) for i, (s, is_in) in enumerate(rows) if is_in)[:size]
    kept = DoubtfulRows.merge(parts).kept
    assert [(row.score, row.row - 1, row.id) for row in kept] == [
        (s, i, f"r{i}") for s, i in expected
    ]


def test_labels_to_check_are_those_with_the_lowest_posterior(punoise, scores, tmp_path):
    known = ("--beta", 0.9, "--out", tmp_path / "p.json")
    punoise("estimate-prior", "--scores", scores, *known)
    common = ("--scores", scores, "--prior", tmp_path / "p.json")
    punoise("posterior", *common, "--out", tmp_path / "q.tsv")
    punoise("report", *common, "--out", tmp_path / "r.html")
    posterior = pd.read_csv(tmp_path / "q.tsv", sep="\t")
    labeled = posterior[posterior["set"] == "labeled"].sort_values(["posterior_labeled", "score"])
    section = (tmp_path / "r.html").read_text().split('id="labels"')[1].split("</section>")[0]
    listed = re.findall(r"<bdi>(r\d+)</bdi>", section)
    assert listed == labeled["id"].head(50).tolist()


def test_with_beta_at_one_no_label_is_doubted():
    content = samples.content()
    answer = replace(content.answer, beta=1.0)
    page = render(replace(content, prior=changed(content.prior, answer=answer)))
    assert "every label is taken to be correct" in page
    assert "Most doubtful labels" not in page


def test_labels_carry_the_calibration_of_their_score():
    found = samples.sketch()
    calibration = samples.calibrated(found, samples.prior(found))
    rows = DoubtfulRows(3)
    rows.add(pa.array(["a", "b"]), found.scores[[5, 900]], np.array([True, True]), 0)
    assert suspicious_labels(rows.kept, calibration) == (
        SuspiciousLabel(1, "a", found.scores[5], calibration.posterior_labeled[5]),
        SuspiciousLabel(2, "b", found.scores[900], calibration.posterior_labeled[900]),
    )


# Strangers' text


def test_hostile_text_is_text_and_nothing_else():
    plain = Outline(render(samples.content())).elements
    hostile = Outline(render(samples.content(samples.HOSTILE))).elements
    compared = Outline(render_comparison(samples.compared(samples.HOSTILE))).elements
    known = {tag for tag, _ in plain} | {"small"}
    for page in (hostile, compared):
        assert {tag for tag, _ in page} <= known
        assert sum(tag == "script" for tag, _ in page) == len(data_of_scripts(page)) + 2
        for _, attributes in page:
            assert not [name for name in attributes if name.startswith("on")]
            assert attributes.get("href", "#").startswith("#")
            assert "src" not in attributes


def data_of_scripts(elements) -> list:
    return [a for tag, a in elements if tag == "script" and a.get("type") == "application/json"]


def test_hostile_text_can_be_read_and_turns_nothing_around():
    page = render(samples.content(samples.HOSTILE))
    page.encode()  # a lone surrogate is spelled out
    body = page.split("<body>")[1].split("<script")[0]
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200e\u200f\u2028\u2029\x00\x1b]", body)
    assert "\\u202eturned around" in body
    assert "<bdi>مرحبا بالعالم</bdi>" in body
    assert "a" * 10_000 in body, "the whole of a long name is there"
    assert "&lt;script&gt;window.harmed" in body


@given(st.text())
def test_json_in_a_script_stays_in_it_and_means_the_same(value):
    written = text.script_json({"key": value})
    assert json.loads(written) == {"key": value}
    assert not set(written) & set("<>&\u2028\u2029")


@given(st.text(max_size=200))
def test_names_hold_no_markup(value):
    outline = Outline(text.Names().html(value))
    assert {tag for tag, _ in outline.elements} <= {"bdi", "details", "summary", "div", "small"}
    assert "".join(outline.texts).startswith(text.shortened(value))


# Size, independence, repetition


def overfull():
    """What a document from elsewhere may bring: far too much of everything."""
    content = samples.content()
    document = samples.prior(content.sketch).to_json()
    document["warnings"] = [{"code": f"c-{i}", "message": "<" * 500} for i in range(5000)]
    document["estimates"] = [
        {**document["estimates"][0], "method": f"{i}{'<' * 500}"} for i in range(5000)
    ]
    many = np.linspace(0, 1, 50_000).tolist()
    document["curve"] = {"alpha_plus": {"proportion": many, "log_likelihood": many}}
    document["assumed"] |= {"words": "<" * 10**6, "sensitivity": [[x, x / 2, x] for x in many]}
    options = {f"option{i}": "<" * 1000 for i in range(5000)}
    provenance = Provenance.of("p", samples.provenance_json() | {"options": options})
    return replace(content, prior=parse_prior("x.json", document), provenance=provenance)


def hostile_names(n: int) -> tuple[str, ...]:
    return tuple(f"{i}{'<é&>' * 2500}" for i in range(n))


@pytest.mark.parametrize(
    "page",
    [
        lambda: render(samples.content(method="all")),
        lambda: render(samples.content(hostile_names(50))),
        lambda: render(samples.content(tuple(f"column {i}" for i in range(5000)))),
        lambda: render_comparison(samples.compared(hostile_names(100))),
        lambda: render_comparison(samples.compared(tuple(f"sample {i}" for i in range(3000)))),
        lambda: render(overfull()),
    ],
    ids=["plain", "long", "wide", "long samples", "many samples", "overfull"],
)
def test_a_page_can_be_mailed(page):
    assert len(page().encode()) <= MOST_BYTES


def test_a_page_refers_to_nothing_outside():
    for page in (render(samples.content()), render_comparison(samples.compared(("a", "b")))):
        addresses = set(re.findall(r"(?:https?|ftp|wss?)://[^\s\"'<>)`]*", page))
        namespaces = {"2000/svg", "1999/xlink", "2000/xmlns/"}  # names, which nobody fetches
        assert {a.removeprefix("http://www.w3.org/") for a in addresses} == namespaces
        policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page).group(1)
        assert "default-src 'none'" in policy
        assert "'unsafe-inline'" not in policy.split("script-src")[1]


def test_equal_inputs_give_equal_bytes_for_any_threads_and_folder(punoise, tables, tmp_path):
    for folder, threads in (("one", 1), ("two", 2)):
        punoise("run", *tables, *FAST, "--threads", threads, "--out-dir", tmp_path / folder)
    one, two = ((tmp_path / folder / "report.html").read_bytes() for folder in ("one", "two"))
    assert one == two
    assert str(tmp_path).encode() not in one


def test_run_writes_the_report_that_the_command_writes(punoise, tables, tmp_path):
    punoise("run", *tables, *FAST, "--out-dir", tmp_path / "run", "--format", "tsv")
    run = tmp_path / "run"
    files = ("--scores", run / "scores.tsv", "--prior", run / "prior.json")
    out = tmp_path / "r.html"
    punoise("report", *files, "--provenance", run / "provenance.json", "--out", out)
    pages = [path.read_text() for path in (run / "report.html", out)]
    assert data_of(pages[0]) == data_of(pages[1])
    parts = [page.split('id="provenance"')[0] for page in pages]
    assert parts[0] == parts[1]
    punoise("report", *files, "--posterior", run / "posterior.tsv", "--out", out)
    for name, chart in data_of(out.read_text()).items():
        for one, other in zip(
            chart["spec"]["data"]["values"],
            data_of(pages[0])[name]["spec"]["data"]["values"],
            strict=True,
        ):
            assert one == pytest.approx(other, abs=1e-5)


def for_another_population(punoise, scores, tmp_path, *more: object) -> tuple[tuple, Path]:
    """The options that name scores and prior, and a POSTERIOR for a share of 5 % positives."""
    punoise("estimate-prior", "--scores", scores, "--out", tmp_path / "p.json")
    common = ("--scores", scores, "--prior", tmp_path / "p.json")
    written = tmp_path / "q.tsv"
    punoise("posterior", *common, "--target-alpha", 0.05, *more, "--out", written)
    return common, written


@pytest.mark.parametrize("more", [(), ("--bounds",)], ids=["plain", "bounds"])
def test_posteriors_for_another_population_are_told_from_those_of_the_rows(
    more, punoise, scores, tmp_path
):
    common, written = for_another_population(punoise, scores, tmp_path, *more)
    pages = [tmp_path / "own.html", tmp_path / "other.html"]
    punoise("report", *common, "--out", pages[0])
    files = ("--posterior", written, "--out", pages[1])
    assert "posterior-mean-off" not in punoise("report", *common, *files, "--strict").err
    own, other = (data_of(page.read_text()) for page in pages)
    said = Outline(pages[1].read_text()).text
    assert "another population, in which 5.0 % of the rows are positive" in said
    assert "another population" not in Outline(pages[0].read_text()).text
    about_posteriors = {"posterior-by-score", "posteriors"}
    for name in own.keys() - about_posteriors:  # these are about the rows, whatever the posterior
        rows = [charts[name]["spec"]["data"]["values"] for charts in (own, other)]
        for one, two in zip(*rows, strict=True):
            assert one == pytest.approx(two, abs=1e-5)
    for name in about_posteriors:
        assert "in a population with 5.0\u00a0% positives" in other[name]["spec"]["description"]
    check_drawn_as_written(other, pd.read_csv(written, sep="\t"))


def check_drawn_as_written(charts: dict, written: pd.DataFrame) -> None:
    """The charts show the posteriors and the fdr of a POSTERIOR file."""
    unlabeled = written[written["set"] == "unlabeled"]
    rows = charts["posteriors"]["spec"]["data"]["values"]
    assert sum(row["rows"] for row in rows[10:]) == (unlabeled["posterior"] >= 0.5).sum()
    assert sum(row["rows"] for row in rows) == len(unlabeled)
    by_score = written.set_index(written["score"].map(text.rounded))
    for row in charts["posterior-by-score"]["spec"]["data"]["values"]:
        expected = by_score.loc[row["score"]]
        assert row["posterior"] == pytest.approx(expected["posterior"], abs=1e-5)
        assert row["fdr"] == pytest.approx(expected["fdr"], abs=1e-5)
        assert row["low"] <= row["posterior"] <= row["high"]
        if "posterior_low" in written:
            assert row["low"] == pytest.approx(expected["posterior_low"], abs=1e-5)
            assert row["high"] == pytest.approx(expected["posterior_high"], abs=1e-5)


@pytest.mark.parametrize("target", [0.0, 1.0, "", -0.1, "two"])
def test_a_target_that_is_none_is_an_input_error(target, punoise, scores, tmp_path):
    common, written = for_another_population(punoise, scores, tmp_path)
    frame = pd.read_csv(written, sep="\t", dtype={TARGET_ALPHA: object})
    frame.loc[[7], TARGET_ALPHA] = 0.06 if target == "two" else target
    frame.to_csv(written, sep="\t", index=False)
    out = ("--posterior", written, "--out", tmp_path / "r.html")
    said = punoise("report", *common, *out, expect=3).err
    assert "column 'target_alpha'" in said
    assert "row 8" in said
    assert not (tmp_path / "r.html").exists()


def test_posteriors_that_do_not_average_to_alpha_are_warned_of(punoise, scores, tmp_path):
    punoise("estimate-prior", "--scores", scores, "--out", tmp_path / "p.json")
    punoise("posterior", "--scores", scores, *("--alpha", 0.9, "--beta", 0.95), "--out",
            tmp_path / "q.tsv")  # fmt: skip
    common = ("--scores", scores, "--prior", tmp_path / "p.json")
    files = ("--posterior", tmp_path / "q.tsv", "--out", tmp_path / "r.html")
    assert "q.tsv: the posterior averages to" in punoise("report", *common, *files).err
    rows = data_of((tmp_path / "r.html").read_text())["posterior-by-score"]
    assert "low" not in rows["columns"], "the bounds of this prior are not those of another"


def test_provenance_can_be_audited_and_the_run_repeated(punoise, tables, tmp_path):
    punoise("run", *tables, *FAST, "--na", "x y", "--out-dir", tmp_path / "run")
    page = (tmp_path / "run" / "report.html").read_text()
    for shard in json.loads((tmp_path / "run" / "provenance.json").read_text())["inputs"]:
        assert shard["sha256"] in page
    said = Outline(page).text
    assert "punoise run --labeled labeled.csv --unlabeled unlabeled.csv" in said
    assert "--na 'x y'" in said
    assert "--classifier logistic" in said


def test_the_command_line_of_a_run_is_one_that_click_takes():
    options = {"labeled": "a.csv", "features": [["a,b", "c"]], "na": ["?", "x"]}
    options |= {"transform": False, "strict": False}
    options |= {"lower_is_positive": True, "beta": None}
    words = command_words(options)
    assert words == [
        *("punoise", "run", "--labeled", "a.csv", "--features", '"a,b",c', "--na", "?"),
        *("--na", "x", "--no-transform", "--lower-is-positive"),
        *("--out-dir", "results"),
    ]
    context = cli.cli.commands["run"].make_context("run", words[2:])
    assert context.params["features"] == (("a,b", "c"),)


# The command


def test_several_samples_are_compared_with_those_that_failed(punoise, scores, tmp_path):
    for name in ("a", "b"):
        out = ("--out", tmp_path / f"{name}.json")
        punoise("estimate-prior", "--scores", scores, "--sample", f"sample {name}", *out)
    (tmp_path / "f.json").write_text(json.dumps(samples.failed("x.csv: <no> rows").to_json()))
    priors = [tmp_path / f"{name}.json" for name in ("a", "b", "f")]
    punoise("report", "--prior", *priors, "--out", tmp_path / "r.html")
    repeated = [word for prior in priors for word in ("--prior", prior)]
    punoise("report", *repeated, "--out", tmp_path / "s.html")
    page = (tmp_path / "r.html").read_text()
    assert page == (tmp_path / "s.html").read_text()
    labels = [row["label"] for row in data_of(page)["samples-alpha"]["spec"]["data"]["values"]]
    assert labels == ["sample a", "sample b", "f"]
    assert "No estimate: x.csv: <no> rows" in Outline(page).text


def test_a_failed_sample_has_a_line_of_its_own_without_an_interval():
    for chart in comparison_charts(samples.compared(("a", "b"))):
        row = chart.rows[-1]
        assert (row["label"], row["said"]) == ("failed", NO_ESTIMATE)
        assert (row["value"], row["low"], row["high"]) == (None, None, None)
        assert f"failed: {NO_ESTIMATE}" in chart.alt
        assert chart.spec()["encoding"]["y"]["scale"]["domain"] == ["a", "b", "failed"]
        texts = [layer["encoding"].get("text") for layer in chart.spec()["layer"]]
        assert {"value": NO_ESTIMATE} in texts
    assert comparison_charts([samples.Sample("f", samples.failed())]) == []


def test_samples_of_one_name_stay_apart():
    names = ("same", "same", "same (2)", "s" * 100, "s" * 99)
    chart = forest("f", "title", "α", [ForestLine(name, 0.5) for name in names])
    assert len({row["label"] for row in chart.rows}) == len(names)


def usage(scores, tmp_path):
    """Command lines that are wrong, each with the code and what is said."""
    prior = ("--prior", tmp_path / "p.json")
    one = ("--scores", scores, *prior)
    out = ("--out", tmp_path / "r.html")
    return [
        ((*out,), 2, "at least one --prior"),
        ((*one, *prior, *out), 2, "one --prior"),
        ((*prior, "--posterior", "q.tsv", *out), 2, "goes with --scores"),
        ((*prior, "--out", tmp_path / "no" / "r.html"), 2, "does not exist"),
        ((*prior, "--out", tmp_path / "p.json"), 2, "overwrite"),
        (("--prior", tmp_path / "none.json", *out), 2, "no such file"),
        (("--prior", scores, *out), 3, "not a JSON file"),
        (("--prior", tmp_path / "odd.json", *out), 3, "not a whole punoise.prior/1"),
        ((*one, "--provenance", tmp_path / "p.json", *out), 3, "punoise.provenance/1"),
        ((*one, "--posterior", scores, *out), 3, "no column 'posterior'"),
        ((*one, "--posterior", tmp_path / "other.tsv", *out), 3, "not those of --scores"),
        (("--scores", scores, "--prior", tmp_path / "failed.json", *out), 4, "no estimate"),
    ]


def test_bad_usage_and_input_write_nothing(punoise, scores, tmp_path):
    punoise("estimate-prior", "--scores", scores, "--out", tmp_path / "p.json")
    prior = json.loads((tmp_path / "p.json").read_text())
    (tmp_path / "odd.json").write_text(json.dumps(prior | {"estimates": [{"method": "auto"}]}))
    (tmp_path / "failed.json").write_text(json.dumps(samples.failed().to_json()))
    common = ("--prior", tmp_path / "p.json", "--out", tmp_path / "other.tsv")
    frame = pd.read_csv(scores, sep="\t")
    frame.iloc[1:].to_csv(tmp_path / "fewer.tsv", sep="\t", index=False)
    punoise("posterior", "--scores", tmp_path / "fewer.tsv", *common)
    for arguments, code, message in usage(scores, tmp_path):
        result = punoise("report", *arguments, expect=code)
        assert message in result.err
        assert not (tmp_path / "r.html").exists()


def test_failures_can_be_written_for_pipelines_that_gather(punoise, scores, tmp_path):
    (tmp_path / "failed.json").write_text(json.dumps(samples.failed("too few rows").to_json()))
    (tmp_path / "bad.json").write_text("{}")
    go_on = ("--out", tmp_path / "r.html", "--on-failure", "write")
    punoise("report", "--scores", scores, "--prior", tmp_path / "failed.json", *go_on)
    assert "too few rows" in (tmp_path / "r.html").read_text()
    punoise("report", "--prior", tmp_path / "bad.json", tmp_path / "failed.json", *go_on)
    assert "not a punoise.prior/1 document" in (tmp_path / "r.html").read_text()


def test_a_prior_of_other_rows_is_warned_of(punoise, scores, tmp_path):
    prior = samples.prior(samples.sketch())
    (tmp_path / "p.json").write_text(json.dumps(prior.to_json()))
    arguments = ("--scores", scores, "--prior", tmp_path / "p.json", "--out", tmp_path / "r.html")
    assert "prior-of-other-rows" in punoise("report", *arguments).err
    assert KINDS["prior-of-other-rows"].meaning in (tmp_path / "r.html").read_text()
    punoise("report", *arguments, "--strict", expect=4)


@pytest.mark.parametrize(
    "change",
    [
        {"alpha": float("inf")},
        {"alpha": 2},
        {"warnings": "text"},
        {"estimates": None},
        {"curve": {"alpha_plus": {"proportion": [0.1, 0.2], "log_likelihood": [1]}}},
        {"alpha_ci": [0.1]},
        {"n_labeled": {}},
    ],
    ids=str,
)
def test_a_prior_that_is_not_one_is_an_input_error(change):
    document = samples.prior(samples.sketch()).to_json()
    assert parse_prior("x.json", document).answer is not None
    with pytest.raises(InputError, match=r"x\.json"):
        parse_prior("x.json", document | change)


def test_provenance_leaves_out_what_differs_between_equal_runs():
    given = Provenance.of("p.json", samples.provenance_json())
    assert given.options["labeled"] == "labeled.csv"
    assert given.options["unlabeled"] == "unlabeled.csv", "folders differ between machines"
    assert not {"threads", "out_dir"} & given.options.keys()
    with pytest.raises(InputError, match=r"p\.json"):
        Provenance.of("p.json", samples.provenance_json() | {"columns": [3]})


# Figures


def test_figures_show_what_the_page_shows(punoise, scores, tmp_path):
    pytest.importorskip("vl_convert")
    punoise("estimate-prior", "--scores", scores, "--out", tmp_path / "p.json")
    arguments = ("--scores", scores, "--prior", tmp_path / "p.json", "--out", tmp_path / "r.html")
    punoise("report", *arguments, "--figures", tmp_path / "figures")
    shown = data_of((tmp_path / "r.html").read_text())
    files = {path.name: path.read_bytes() for path in (tmp_path / "figures").iterdir()}
    expected = {f"{name}.{kind}" for name in shown for kind in ("svg", "png")}
    assert set(files) == expected | {"summary.tsv"}
    for name, content in files.items():
        if name.endswith(".svg"):
            assert content.startswith(b"<svg")
            assert b"var(--" not in content, "colours must not need the page"
        elif name.endswith(".png"):
            assert content.startswith(b"\x89PNG")
    summary = pd.read_csv(tmp_path / "figures" / "summary.tsv", sep="\t")
    assert set(summary["figure"]) == set(shown)
    auto = summary[(summary["figure"] == "methods-alpha") & (summary["quantity"] == "α")]
    alpha = json.loads((tmp_path / "p.json").read_text())["alpha"]
    assert float(auto["value"].iloc[0]) == pytest.approx(alpha, rel=1e-5)
    punoise("report", *arguments, "--figures", tmp_path / "again")
    assert files == {path.name: path.read_bytes() for path in (tmp_path / "again").iterdir()}


def test_figures_without_their_package_are_a_usage_error(punoise, scores, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    punoise("estimate-prior", "--scores", scores, "--out", tmp_path / "p.json")
    arguments = ("--scores", scores, "--prior", tmp_path / "p.json", "--out", tmp_path / "r.html")
    result = punoise("report", *arguments, "--figures", tmp_path / "figures", expect=2)
    assert "pip install 'punoise[report]'" in result.err
    assert not (tmp_path / "r.html").exists()
    assert not (tmp_path / "figures").exists()
    punoise("report", *arguments)


def test_the_bundle_is_the_one_its_script_makes():
    vl_convert = pytest.importorskip("vl_convert")
    written = (ASSETS / "vega.js").read_text(encoding="utf-8")
    head = written.split("\n", 1)[0]
    if vl_convert.get_vega_version() not in head:
        pytest.skip("another version of vl-convert is installed")
    script = Path(__file__).parent.parent / "packaging" / "bundle_vega.py"
    names: dict = {"__name__": "bundle_vega", "__file__": str(script)}
    exec(compile(script.read_text(), str(script), "exec"), names)
    assert names["bundle"]().split("\n", 1)[1] == written.split("\n", 1)[1]
    assert "licen" in (ASSETS / "vega.LICENSE.txt").read_text().lower()


# The terminal


def test_the_histogram_is_as_wide_as_said_and_shows_every_row():
    lines = histogram_lines(samples.sketch(), PLAIN_BLOCKS, width=40)
    assert [len(line) for line in lines] == [51, 51, 51]
    assert lines[0].startswith("unlabeled  ")
    lone = histogram_lines(Sketch.from_samples(np.array([0.0, 1.0]), np.r_[np.zeros(10**5), 1.0]))
    assert lone[0].rstrip()[-1] == "▁"


def on_terminal(command: list[str], locale: str = "C.UTF-8") -> str:
    """What a command writes to a stderr that is a terminal."""
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "pu_noise_cli", *command],
            stdout=subprocess.DEVNULL,
            stderr=theirs,
            env={**os.environ, "LC_ALL": locale, "PYTHONIOENCODING": ""},
        )
        os.close(theirs)
        written = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # how Linux tells that the other end has gone
                break
            if not part:
                break
            written += part
        assert process.wait() == 0
    finally:
        os.close(ours)
    return written.decode()


def test_a_terminal_gets_a_histogram_and_a_file_does_not(punoise, scores, tmp_path):
    command = ["estimate-prior", "--scores", scores, "--out", str(tmp_path / "p.json")]
    seen = on_terminal(command)
    assert re.search(r"unlabeled  .*[▁-█]", seen)
    assert re.search(r"labeled    .*█", seen)
    assert "alpha  0." in seen
    assert str(tmp_path / "p.json") in seen
    plain = punoise(*command).err
    assert not re.search("[▁-█]", plain)
    assert "alpha  0." in plain
    assert "█" not in on_terminal([*command, "--quiet"])
