"""The report: what stands in it, what it leaves out, its size, and its figures."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import report_samples as samples
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from report_samples import (
    Outline,
    chart,
    content_of,
    data_of,
    named_content,
    render,
    section,
)

from pu_noise_cli import report
from pu_noise_cli.cli import process as cli
from pu_noise_cli.errors import InputError
from pu_noise_cli.notices import Notice, kinds
from pu_noise_cli.prior.base import Settings
from pu_noise_cli.prior.document import Prior, parse_prior, summarize_prior
from pu_noise_cli.prior.estimation import estimate_prior
from pu_noise_cli.report.content import command_words
from pu_noise_cli.report.figures import PLAIN_BLOCKS, histogram_lines
from pu_noise_cli.report.page import PRINT, Names, Proportion, forest, script_json, shortened
from pu_noise_cli.score.sketch import Sketch

FAST = ("--classifier", "logistic")
MAX_BYTES = 1_500_000
ROOM = Path(report.__file__).parent


# Content


def test_sections_stand_in_the_order_of_their_weight():
    page = samples.page(method="all")
    assert re.findall(r'<section id="([a-z]+)"', page) == [
        *("usable", "answer", "warnings", "next", "candidates", "labels", "scores", "assumption"),
        *("reviewers", "provenance", "methodstext", "cite"),
    ]
    assert list(data_of(page)) == [
        *("scores-unlabeled", "scores-labeled", "posterior-by-score", "selection", "assumption"),
        *("roc", "calibration", "posteriors", "likelihood-alpha-plus", "likelihood-beta-plus"),
        *("methods-alpha", "methods-beta"),
    ]
    contents = page.split("<nav")[1].split("</nav>")[0]
    assert re.findall(r'href="#([a-z]+)"', contents) == re.findall(r'<section id="([a-z]+)"', page)
    assert page.index('class="reviewers"') < page.index('id="chart-roc"')


def test_the_header_names_the_sample_its_files_rows_and_the_version():
    page = samples.page(("BRCA1", "b"))
    header = Outline(page.split("<header>")[1].split("</header>")[0]).text
    for text in ("BRCA1", "labeled.csv", "300 labeled", "1,000 unlabeled", "punoise 0.1.0"):
        assert text in header
    title = page.split("<title>")[1].split("</title>")[0]
    assert title.startswith("BRCA1: α 31.2% (20.9% to 36.5%)")


def test_the_answer_has_both_fractions_their_intervals_and_the_rows():
    prior = samples.prior(samples.sketch())
    answer = section(samples.page(), "answer")
    for value in (prior.alpha, *prior.alpha_ci, prior.beta, prior.beta_ci[0]):
        assert f"{100 * value:.1f}%" in answer
    assert "1,000 unlabeled rows" in answer
    assert "300 labels are correct" in answer


# What is certain, what is assumed


def assuming(**settings) -> Prior:
    return estimate_prior(samples.sketch(), "auto", Settings(**settings))


def certainty(prior: Prior) -> dict[str, str]:
    """The lines on certainty in the answer section, by their first words."""
    page = render(content_of(samples.sketch(), prior))
    answer = page.split('<section id="answer"')[1].split("</section>")[0]
    lines = [Outline(item).text for item in re.findall(r"<li>(.*?)</li>", answer)]
    parts = (re.split(r"(?: \([^)]*\) )?: ", line, maxsplit=1) for line in lines)
    return dict(part for part in parts if len(part) == 2)


def test_the_answer_says_what_the_limits_are_and_what_they_assume():
    prior = samples.prior(samples.sketch())
    lines = certainty(prior)
    assert f"α <= {100 * prior.alpha_max:.1f}%" in lines["Limit"]
    assert f"β >= {100 * prior.beta_min:.1f}%" in lines["Limit"]
    assert "cannot show this" in lines["Assumed"]
    assert f"up to {100 * dict(prior.alpha_max_by_selection)[2]:.1f}%" in lines["Selection bias"]
    assert "assume nothing" in lines["Likely"]
    assert "at least 30%" in certainty(assuming(purity=0.3))["Likely"]


def test_the_report_opens_with_whether_it_can_be_used():
    """Nothing there says that all is well: labels may be selected, which no check finds."""
    prior = samples.prior(samples.sketch())
    for representative, said in (
        ("assumed", "Your call"),
        ("checked", "do not contradict"),
        ("contradicted", "Verified rows contradict"),
    ):
        known = replace(prior, representative=representative, notices=())
        page = render(content_of(samples.sketch(), known))
        usable = section(page, "usable")
        assert page.index('id="usable"') < page.index('id="answer"')
        assert f"AUC {prior.auc:.3f}" in usable
        assert f"{100 * (prior.alpha_ci[1] - prior.alpha_ci[0]):.1f} percentage points" in usable
        assert said in usable
        assert ('class="state ask"' in page) == (representative == "assumed")


def test_likely_is_what_the_stated_knowledge_makes_it():
    both = certainty(assuming(alpha_between=(0.2, 0.4), purity=0.3))["Likely"]
    assert "between 20.0% and 40.0%" in both
    assert "at least 30%" in both
    assert "assume nothing" in certainty(assuming(purity=0.0))["Likely"]
    against = certainty(assuming(alpha_between=(0.8, 0.9)))
    assert "contradict" in against["Likely"]
    assert "α is between" not in against["Likely"]
    assert "α" not in against.get("Limit", ""), "it excludes the stated range"
    by_others = certainty(samples.prior(samples.sketch(), "msgmm"))
    assert "sampling error only" in by_others["Likely"]


def test_the_chart_of_the_assumption_shows_the_interval_at_each_purity():
    prior = assuming(purity=0.3)
    drawn = chart(content_of(samples.sketch(), prior), "assumption")
    assert [row["purity"] for row in drawn.rows] == pytest.approx(np.arange(10) / 10)
    ends = [(row["low"], row["high"]) for row in drawn.rows]
    assert ends[3] == pytest.approx(prior.alpha_ci, rel=1e-5)
    for purity, end in ((0.0, ends[0]), (0.7, ends[7])):
        assert assuming(purity=purity).alpha_ci == pytest.approx(end, rel=1e-5)
    assert [low for low, _ in ends] == sorted(low for low, _ in ends)
    assert marked(drawn) == [0.3]


def marked(drawn) -> list[float]:
    """The purities that a line marks as assumed."""
    spec = drawn.spec()
    named = {layer["data"]["name"] for layer in spec["layer"] if "data" in layer}
    return [row["purity"] for row in spec["datasets"]["assumed"] if "assumed" in named]


def test_a_purity_between_the_others_is_drawn_too():
    prior = assuming(purity=0.95)
    last = chart(content_of(samples.sketch(), prior), "assumption").rows[-1]
    assert last["purity"] == 0.95
    assert (last["low"], last["high"]) == pytest.approx(prior.alpha_ci, rel=1e-5)


def test_where_nothing_is_assumed_nothing_is_marked():
    content = content_of(samples.sketch(), assuming(purity=0.0))
    assert marked(chart(content, "assumption")) == []
    assert "assumes nothing" in section(render(content), "assumption")


def test_a_contradicted_purity_is_not_marked_as_assumed():
    prior = samples.prior(samples.sketch())
    notice = Notice("assumption-contradicted", "contradicted")
    content = content_of(samples.sketch(), replace(prior, notices=(notice,)))
    assert marked(chart(content, "assumption")) == []
    assert "contradicts the scores" in section(render(content), "assumption")


def test_there_is_no_chart_of_what_is_not_assumed_or_not_known():
    found = samples.sketch()
    prior = samples.prior(found)
    few = replace(prior.assumed, sensitivity=prior.assumed.sensitivity[:2])
    for known in (
        samples.prior(found, "msgmm"),
        replace(prior, assumed=few),
        replace(prior, n_labeled=5),  # of other rows
    ):
        assert "assumption" not in data_of(render(content_of(found, known)))


def test_the_whole_assumption_stands_in_the_provenance():
    prior = samples.prior(samples.sketch())
    assert prior.assumed.words in section(render(content_of(samples.sketch(), prior)), "provenance")


def with_alpha(prior: Prior, alpha: float, interval: tuple[float, float]) -> Prior:
    """The prior with another α, of the answer and of `auto`."""
    estimates = tuple(
        replace(e, alpha=alpha, alpha_ci=interval) if e.method == "auto" else e
        for e in prior.estimates
    )
    return replace(prior, alpha=alpha, alpha_ci=interval, estimates=estimates)


def test_a_lower_end_that_is_next_to_nothing_is_shown_as_nothing():
    prior = with_alpha(samples.prior(samples.sketch(), "all"), 0.1, (0.0004, 0.2))
    page = render(content_of(samples.sketch(), prior))
    assert "0.0004" not in page.split("</main>")[0]
    assert "0.04%" not in page
    answer = section(page, "answer")
    assert "0% to 20.0%" in answer
    assert "between 0 and 200" in answer
    assert "10.0% (0% to 20.0%)" in section(page, "reviewers")
    drawn = {row["label"]: row for row in data_of(page)["methods-alpha"]["datasets"]["rows"]}
    assert drawn["auto"]["low"] == 0
    other = replace(prior, alpha_ci=(0.0051, 0.2))
    assert "0.51% to" in section(render(content_of(samples.sketch(), other)), "answer")


def test_a_narrow_interval_of_a_small_fraction_is_shown_as_it_is():
    prior = with_alpha(samples.prior(samples.sketch()), 0.0038, (0.0033, 0.0044))
    assert any("0.38% [0.33%, 0.44%]" in line for line in summarize_prior(prior))
    answer = section(render(content_of(samples.sketch(), prior)), "answer")
    assert "0.33% to 0.44%" in answer
    assert "about 4 positives, between 3 and 4" in answer


# Warnings


def test_a_warning_comes_with_its_meaning_and_remedy():
    text, known = section(samples.page(), "warnings"), kinds()
    assert known["few-rows"].meaning in text
    assert known["few-rows"].remedy in text
    assert known["leaking-column"].remedy in text, "warnings of the transform count too"


def test_a_warning_of_another_version_is_shown_all_the_same():
    notice = Notice("of-tomorrow", "full moon")
    prior = replace(samples.prior(samples.sketch()), notices=(notice,))
    page = render(content_of(samples.sketch(), prior))
    for text in ("full moon", "of-tomorrow", "another version"):
        assert text in page


@pytest.mark.parametrize(
    ("alpha", "interval", "beta_ci", "calm"),
    [
        (0.3, (0.25, 0.35), (0.85, 0.95), True),
        (0.3, (0.05, 0.36), (0.85, 0.95), False),  # wider than the estimate
        (0.6, (0.3, 0.75), (0.85, 0.95), False),  # wider than 0.4
        (0.3, (0.25, 0.35), (0.5, 1.0), False),
        (0.3, None, None, True),
    ],
)
def test_wide_intervals_are_called_wide(alpha, interval, beta_ci, calm):
    prior = replace(
        samples.prior(samples.sketch()),
        alpha=alpha,
        alpha_ci=interval,
        beta=0.9,
        beta_ci=beta_ci,
        notices=(),
    )
    page = render(content_of(samples.sketch(), prior))
    assert 'id="warnings"' not in page
    assert ("wide." in section(page, "answer")) == (not calm)


# Charts


def test_components_add_up_to_alpha_and_beta():
    content = samples.content()
    for name, symbol in (("unlabeled", "alpha"), ("labeled", "beta")):
        fraction = content.values[symbol].value
        rows = chart(content, f"scores-{name}").rows
        assert sum(row["positive"] for row in rows) == pytest.approx(fraction, abs=0.01)
        assert sum(row["total"] for row in rows) == pytest.approx(1, abs=1e-3)
        for row in rows:
            assert row["positive"] + row["negative"] == pytest.approx(row["total"], abs=1e-5)


def test_few_positives_are_drawn_enlarged():
    found = samples.few_positives()
    content = content_of(found, samples.prior(found))
    names = [one.name for one in content.charts["scores"]]
    assert names == ["scores-unlabeled", "positives-unlabeled", "scores-labeled"]
    plain, enlarged = (chart(content, name) for name in names[:2])
    tallest = max(row["positive"] for row in enlarged.rows)
    assert tallest < 0.05 * max(row["total"] for row in plain.rows), "they could not be seen"
    low, high = enlarged.spec()["layer"][0]["encoding"]["y"]["scale"]["domain"]
    assert low == 0
    assert tallest <= high <= 2 * tallest, "now the tallest fills half of the chart or more"
    assert max(row["cut"] for row in enlarged.rows) <= high


@pytest.mark.parametrize(
    ("title", "column", "negated"),
    [
        ("score", None, False),
        ("REVEL", "REVEL", False),
        ("SIFT (opposite sign)", "SIFT", True),
        ("a\\u202eb", "a\u202eb", False),
        ("$ink", "$ink", False),  # not one of the placeholders of a specification
    ],
)
def test_an_axis_of_scores_has_the_name_of_its_column(title, column, negated):
    known = samples.provenance(score_column=column, options={"lower_is_positive": negated})
    content = named_content(samples.prior(samples.sketch()), provenance=known)
    for name in ("scores-unlabeled", "scores-labeled", "posterior-by-score"):
        assert chart(content, name).spec()["encoding"]["x"]["title"] == title


def test_the_posterior_by_score_has_a_band():
    drawn = chart(samples.content(), "posterior-by-score")
    for row in drawn.rows:
        assert 0 <= row["low"] <= row["posterior"] <= row["high"] <= 1
    assert max(row["high"] - row["low"] for row in drawn.rows) > 0.05
    assert drawn.spec()["layer"][0]["mark"]["type"] == "area"
    assert "one-sided" in section(samples.page(), "scores")


def test_roc_curves_enclose_about_the_areas_that_are_stated():
    content = samples.content()
    rows = pd.DataFrame(chart(content, "roc").rows)
    areas = {name: np.trapezoid(curve["y"], curve["x"]) for name, curve in rows.groupby("curve")}
    recovered, observed = (areas[name] for name in sorted(areas, key=lambda n: "observed" in n))
    assert observed == pytest.approx(content.values["sketch"].auc, abs=0.003)
    assert recovered > observed
    assert recovered == pytest.approx(content.values["auc"], abs=0.05)
    text = section(samples.page(), "reviewers")
    for auc in (content.values["sketch"].auc, content.values["auc"]):
        assert f"{auc:.3f}" in text
        assert f"AUC {auc:.3f}" in chart(content, "roc").alt


def test_the_elbow_is_alphamaxs_own_for_every_method():
    estimates = samples.prior(samples.sketch(), "all").estimates
    (own,) = (e for e in estimates if e.method == "alphamax-n")
    for method in ("all", "auto"):
        points = chart(samples.content(method=method), "likelihood-alpha-plus").more_rows["points"]
        (elbow,) = (point for point in points if "elbow" in point["mark"])
        assert elbow["x"] == pytest.approx(own.alpha_plus, abs=1e-5)


@pytest.mark.parametrize("target", [None, 0.05])
def test_calls_count_the_rows_of_the_posterior_table(target):
    found = samples.sketch()
    values = content_of(found, samples.prior(found), target).values
    for calls in (*values["calls_by_posterior"], *values["calls_by_fdr"]):
        lowest = calls.lowest_score
        called = found.scores >= (np.inf if lowest is None else lowest)
        assert calls.unlabeled == found.unlabeled[called].sum()
    for calls in values["calls_by_posterior"]:
        assert calls.unlabeled == 0 or calls.positive_fraction >= calls.level
    for calls in values["calls_by_fdr"]:
        assert calls.unlabeled == 0 or 1 - calls.positive_fraction <= calls.level
    assert values["calls_by_fdr"][-1].unlabeled > 0


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e6])
@pytest.mark.parametrize("n", [400, 40_000])
def test_histograms_lose_no_row_of_any_range(scale, n):
    rng = np.random.default_rng(0)
    labeled, unlabeled = rng.normal(1, 1, n) * scale, rng.standard_t(2, 2 * n) * scale
    found = Sketch.from_samples(labeled, unlabeled)
    rows = chart(content_of(found, samples.stated(found, 0.3, 0.9)), "scores-labeled").rows
    assert sum(row["total"] for row in rows) == pytest.approx(1, abs=1e-4)
    assert sum(row["unlabeled"] for row in rows) == pytest.approx(1, abs=1e-4)
    inner = [row["low"] for row in rows[10:-10]]
    counted = np.histogram(labeled, inner)[0] / n
    drawn = [row["total"] for row in rows[10:-11]]
    assert np.abs(np.array(drawn) - counted).max() <= max(5 / n, 0.05 * counted.max())


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
    punoise("report", *arguments, "--out", tmp_path / "r.html", expect=4)  # they are alike
    stated = samples.stated(samples.sketch(20, 40), 0.2, 0.9)
    (tmp_path / "p.json").write_text(json.dumps(stated.to_json()))
    punoise("report", *arguments, "--out", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert "NaN" not in page.split("</main>")[0]
    assert data_of(page)


# Labels to check


def test_labels_to_check_are_those_with_the_lowest_posterior(punoise, scores, tmp_path):
    known = ("--beta", 0.9, "--out", tmp_path / "p.json")
    punoise("estimate-prior", "--scores", scores, *known)
    common = ("--scores", scores, "--prior", tmp_path / "p.json")
    punoise("posterior", *common, "--out", tmp_path / "q.tsv")
    punoise("report", *common, "--out", tmp_path / "r.html")
    posterior = pd.read_csv(tmp_path / "q.tsv", sep="\t")
    labeled = posterior[posterior["set"] == "labeled"].sort_values(["posterior_labeled", "score"])
    labels = (tmp_path / "r.html").read_text().split('id="labels"')[1].split("</section>")[0]
    assert re.findall(r"<bdi>(r\d+)</bdi>", labels) == labeled["id"].head(20).tolist()


def test_with_beta_at_one_no_label_is_doubted():
    page = render(named_content(replace(samples.prior(samples.sketch()), beta=1.0, beta_ci=None)))
    assert "<table>" not in page.split('id="labels"')[1].split("</section>")[0]


# Text from anywhere


def test_hostile_text_is_text_and_nothing_else():
    plain = Outline(samples.page()).elements
    hostile = Outline(samples.page(samples.HOSTILE)).elements
    assert {tag for tag, _ in hostile} <= {tag for tag, _ in plain} | {"small"}
    scripts = [attributes.get("type") for tag, attributes in hostile if tag == "script"]
    assert scripts.count(None) == 2
    assert set(scripts) == {None, "application/json"}
    for _, attributes in hostile:
        assert not [name for name in attributes if name.startswith("on")]
        assert attributes.get("href", "#").startswith("#")
        assert "src" not in attributes


def test_hostile_text_can_be_read_and_changes_no_direction():
    page = samples.page(samples.HOSTILE)
    page.encode()  # a lone surrogate is spelled out
    body = page.split("<body>")[1].split("<script")[0]
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200e\u200f\u2028\u2029\x00\x1b]", body)
    assert "\\u202eturned around" in body
    assert "<bdi>مرحبا بالعالم</bdi>" in body
    assert "a" * 10_000 in body, "the whole of a long name is there"
    assert "&lt;script&gt;window.harmed" in body


@given(st.text())
def test_json_in_a_script_stays_in_it_and_means_the_same(value):
    written = script_json({"key": value})
    assert json.loads(written) == {"key": value}
    assert not set(written) & set("<>&\u2028\u2029")


@given(st.text(max_size=200))
def test_names_hold_no_markup(value):
    outline = Outline(Names().html(value))
    assert {tag for tag, _ in outline.elements} <= {"bdi", "details", "summary", "div", "small"}
    assert "".join(outline.texts).startswith(shortened(value))


# Size, independence, repetition


def overfull():
    """What a document from elsewhere may bring: far too much of everything."""
    document = samples.prior(samples.sketch()).to_json()
    document["warnings"] = [{"code": f"c-{i}", "message": "<" * 500} for i in range(5000)]
    document["estimates"] = [
        {**document["estimates"][0], "method": f"{i}{'<' * 500}"} for i in range(50)
    ]
    many = np.linspace(0, 1, 50_000).tolist()
    document["curve"] = {"alpha_plus": {"proportion": many, "log_likelihood": many}}
    document["assumed"] |= {"words": "<" * 10**6, "sensitivity": [[x, x / 2, x] for x in many]}
    options = {f"option{i}": "<" * 1000 for i in range(5000)}
    known = parse_prior("x.json", document)
    return render(named_content(known, provenance=samples.provenance(options=options)))


def hostile_names(n: int) -> tuple[str, ...]:
    return tuple(f"{i}{'<é&>' * 2500}" for i in range(n))


@pytest.mark.parametrize(
    "page",
    [
        lambda: samples.page(method="all"),
        lambda: samples.page(hostile_names(50)),
        lambda: samples.page(tuple(f"column {i}" for i in range(5000))),
        overfull,
    ],
    ids=["plain", "long", "wide", "overfull"],
)
def test_a_page_can_be_mailed(page):
    assert len(page().encode()) <= MAX_BYTES


def test_a_page_refers_to_nothing_outside():
    page = samples.page()
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
    options = ("--score-column", "a", "--lower-is-positive", "--na", "x y", "--alpha", "0.2")
    punoise("run", *tables, *options, "--out-dir", tmp_path / "run", "--format", "tsv")
    run = tmp_path / "run"
    files = ("--scores", run / "scores.tsv", "--prior", run / "prior.json")
    out = tmp_path / "r.html"
    punoise("report", *files, "--provenance", run / "provenance.json", "--out", out)
    pages = [path.read_text() for path in (run / "report.html", out)]
    assert data_of(pages[0]) == data_of(pages[1])
    assert len({page.split('id="provenance"')[0] for page in pages}) == 1
    title = data_of(pages[0])["scores-labeled"]["encoding"]["x"]["title"]
    assert title == "a (opposite sign)"
    text = section(pages[0], "provenance")
    for shard in json.loads((run / "provenance.json").read_text())["inputs"]:
        assert shard["sha256"] in text
    assert "punoise run --labeled labeled.csv --unlabeled unlabeled.csv" in text
    assert "--na 'x y'" in text


def test_posteriors_for_another_population_are_distinguished_from_those_of_the_rows():
    found, known = samples.sketch(), samples.prior(samples.sketch())
    pages = [render(content_of(found, known, target)) for target in (None, 0.05)]
    own, other = map(data_of, pages)
    assert "5.0%" in section(pages[1], "answer")
    assert "another population" not in Outline(pages[0]).text
    about_posteriors = {"posterior-by-score", "posteriors"}
    for name in own:  # the others are about the rows, for any population
        assert (own[name] == other[name]) == (name not in about_posteriors)
    for name in about_posteriors:
        assert "with 5.0% positives" in other[name]["description"]


def test_the_charts_show_what_the_posterior_table_holds(punoise, scores, tmp_path):
    punoise("estimate-prior", "--scores", scores, "--out", tmp_path / "p.json")
    common = ("--scores", scores, "--prior", tmp_path / "p.json")
    punoise("posterior", *common, "--bounds", "--out", tmp_path / "q.tsv")
    punoise("report", *common, "--out", tmp_path / "r.html")
    charts = data_of((tmp_path / "r.html").read_text())
    written = pd.read_csv(tmp_path / "q.tsv", sep="\t")
    unlabeled = written[written["set"] == "unlabeled"]
    rows = charts["posteriors"]["datasets"]["rows"]
    assert sum(row["rows"] for row in rows[10:]) == (unlabeled["posterior"] >= 0.5).sum()
    assert sum(row["rows"] for row in rows) == len(unlabeled)
    by_score = written.set_index(written["score"].map(lambda score: float(f"{score:.6g}")))
    columns = {"posterior": "posterior", "fdr": "fdr"}
    columns |= {"low": "posterior_low", "high": "posterior_high"}
    for row in charts["posterior-by-score"]["datasets"]["rows"]:
        expected = by_score.loc[row["score"]]
        for name, column in columns.items():
            assert row[name] == pytest.approx(expected[column], abs=1e-5)


def test_the_command_line_of_a_run_is_one_that_click_takes():
    options = {"labeled": "a.csv", "features": [["a,b", "c"]], "na": ["?", "x"]}
    options |= {"transform": False, "strict": False}
    options |= {"lower_is_positive": True, "beta": None, "alpha_between": [0.1, 0.5]}
    words = command_words(options)
    assert words == [
        *("punoise", "run", "--labeled", "a.csv", "--features", '"a,b",c', "--na", "?"),
        *("--na", "x", "--no-transform", "--lower-is-positive"),
        *("--alpha-between", "0.1", "0.5"),
        *("--out-dir", "results"),
    ]
    context = cli.cli.get_command(None, "run").make_context("run", words[2:])
    assert context.params["features"] == (("a,b", "c"),)
    assert context.params["alpha_between"] == (0.1, 0.5)


# The command


def test_samples_of_one_name_stay_apart():
    names = ("same", "same", "same (2)", "s" * 100, "s" * 99)
    drawn = forest("f", "title", "α", [(name, Proportion(0.5), False) for name in names])
    assert len({row["label"] for row in drawn.rows}) == len(names)


def test_bad_usage_and_input_write_nothing(punoise, scores, tmp_path):
    punoise("estimate-prior", "--scores", scores, "--out", tmp_path / "p.json")
    prior = json.loads((tmp_path / "p.json").read_text())
    (tmp_path / "odd.json").write_text(json.dumps(prior | {"estimates": [{"method": "auto"}]}))
    (tmp_path / "failed.json").write_text(json.dumps(samples.failed().to_json()))
    prior = ("--prior", tmp_path / "p.json")
    source, out = ("--scores", scores), ("--out", tmp_path / "r.html")
    one = (*source, *prior)
    for arguments, code, message in [
        ((*out,), 2, "--scores"),
        ((*source, *out), 2, "--prior"),
        ((*prior, *out), 2, "--scores"),
        ((*one, "--out", tmp_path / "no" / "r.html"), 2, "does not exist"),
        ((*one, "--out", tmp_path / "p.json"), 2, "overwrite"),
        ((*source, "--prior", tmp_path / "none.json", *out), 2, "no such file"),
        ((*source, "--prior", scores, *out), 3, "JSON"),
        ((*source, "--prior", tmp_path / "odd.json", *out), 3, "punoise.prior/1"),
        ((*one, "--provenance", tmp_path / "p.json", *out), 3, "punoise.provenance/1"),
        ((*source, "--prior", tmp_path / "failed.json", *out), 4, "no estimate"),
    ]:
        assert message in punoise("report", *arguments, expect=code).err
        assert not (tmp_path / "r.html").exists()


def test_a_prior_of_other_rows_is_warned_of(punoise, scores, tmp_path):
    prior = samples.prior(samples.sketch())
    (tmp_path / "p.json").write_text(json.dumps(prior.to_json()))
    arguments = ("--scores", scores, "--prior", tmp_path / "p.json", "--out", tmp_path / "r.html")
    assert "prior-of-other-rows" in punoise("report", *arguments).err
    assert "prior-of-other-rows" in section((tmp_path / "r.html").read_text(), "warnings")
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
def test_an_invalid_prior_is_an_input_error(change):
    document = samples.prior(samples.sketch()).to_json()
    assert parse_prior("x.json", document).alpha is not None
    with pytest.raises(InputError, match=r"x\.json"):
        parse_prior("x.json", document | change)


def test_the_report_leaves_out_what_differs_between_equal_runs():
    text = section(samples.page(), "provenance")
    assert "option labeled labeled.csv" in text
    assert "somewhere" not in text, "folders differ between machines"
    assert "threads" not in text


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
            assert b"var(--" not in content, "colors must not need the page"
        elif name.endswith(".png"):
            assert content.startswith(b"\x89PNG")
    summary = pd.read_csv(tmp_path / "figures" / "summary.tsv", sep="\t")
    assert set(summary["figure"]) == set(shown)
    limit = summary[(summary["figure"] == "selection") & (summary["quantity"] == "α at most")]
    alpha_max = json.loads((tmp_path / "p.json").read_text())["alpha_max"]
    assert float(limit["value"].iloc[0]) == pytest.approx(alpha_max, rel=1e-5)
    punoise("report", *arguments, "--figures", tmp_path / "again")
    assert files == {path.name: path.read_bytes() for path in (tmp_path / "again").iterdir()}


def test_print_has_neither_placeholders_nor_what_needs_a_pointer():
    for group in samples.content(method="all").charts.values():
        for drawn in group:
            text = json.dumps(drawn.spec(PRINT, 460))
            assert '"$' not in text
            assert '"when"' not in text
            assert "zoom" not in text
            assert "hover" not in text


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
    written = (ROOM / "assets" / "vega.js").read_text(encoding="utf-8")
    head = written.split("\n", 1)[0]
    if vl_convert.get_vega_version() not in head:
        pytest.skip("another version of vl-convert is installed")
    script = Path(__file__).parents[2] / "packaging" / "bundle_vega.py"
    names: dict = {"__name__": "bundle_vega", "__file__": str(script)}
    exec(compile(script.read_text(), str(script), "exec"), names)
    assert names["bundle"]().split("\n", 1)[1] == written.split("\n", 1)[1]
    assert "licen" in (ROOM / "assets" / "vega.LICENSE.txt").read_text().lower()


# The terminal


def test_the_histogram_has_the_width_asked_for_and_shows_every_row():
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
            env={**os.environ, "LC_ALL": locale, "PYTHONIOENCODING": "", "NO_COLOR": "1"},
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
    assert re.search(r"alpha  \d+\.\d+% \[", re.sub(r"\x1b\[\d*m", "", seen))
    assert str(tmp_path / "p.json") in seen
    plain = punoise(*command).err
    assert not re.search("[▁-█]", plain)
    assert re.search(r"alpha  2\d\.\d% \[", plain)
    assert "█" not in on_terminal([*command, "--quiet"])
