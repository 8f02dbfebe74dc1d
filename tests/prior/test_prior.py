"""PRIOR.json: valid whatever the input, with the warnings that are due and no others."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from conftest import validated

from pu_noise_cli.errors import EstimationError, InputError, UsageError
from pu_noise_cli.prior.base import ESTIMATORS, Estimate, Settings
from pu_noise_cli.prior.checks import Case, diagnose
from pu_noise_cli.prior.document import parse_prior, read_prior, shares_for, summarize_prior
from pu_noise_cli.prior.estimation import estimate_prior, failed_prior
from pu_noise_cli.score.sketch import Sketch

ON_SCORES = [
    name for name, method in ESTIMATORS.items() if method.needs == "scores" and ":" not in name
]


def gaussian(n_labeled=1000, n_unlabeled=5000, alpha=0.25, beta=0.95, gap=3.0, digits=9) -> Sketch:
    rng = np.random.default_rng(5)
    labeled = rng.normal(size=n_labeled) + gap * (rng.random(n_labeled) < beta)
    unlabeled = rng.normal(size=n_unlabeled) + gap * (rng.random(n_unlabeled) < alpha)
    return Sketch.from_samples(labeled.round(digits), unlabeled.round(digits))


def codes(sketch: Sketch, estimate: Estimate) -> set[str]:
    return {notice.code for notice in diagnose(Case(sketch, estimate))}


CLEAN = Estimate(0.25, 0.95, alpha_ci=(0.2, 0.3))
DUE = {
    "few-rows": (gaussian(n_labeled=60), CLEAN),
    "indistinguishable": (gaussian(gap=0), CLEAN),
    "reversed-scores": (gaussian(gap=-3), CLEAN),
    "separable": (gaussian(alpha=0, beta=1, gap=9), CLEAN),
    "tied-scores": (gaussian(digits=0), CLEAN),
    "alpha-near-zero": (gaussian(), Estimate(0.001, 0.95)),
    "alpha-near-one": (gaussian(), Estimate(0.995, 1.0)),
    "beta-not-above-alpha": (gaussian(), Estimate(0.5, 0.52)),
    "refuted-by-auc": (gaussian(), Estimate(0.6, 0.9)),
    "estimate-at-interval-edge": (gaussian(), Estimate(0.25, 0.95, alpha_ci=(0.1, 0.25))),
}


@pytest.mark.parametrize("code", DUE)
def test_a_warning_fires_where_it_should(code):
    assert code in codes(*DUE[code])


@pytest.mark.parametrize("code", ["alpha-near-zero", "refuted-by-auc"])
def test_a_warning_names_the_share_of_positives_whatever_labeled_rows_are(code):
    sketch, estimate = DUE["refuted-by-auc"][0], Estimate(0.995, 1.0)
    case = Case(sketch, estimate, positives=replace(estimate, alpha=1 - estimate.alpha))
    said = {notice.code: notice.message for notice in diagnose(case)}
    assert "0.50%" in said[code]


def test_clean_data_give_no_warning():
    assert codes(gaussian(), CLEAN) == set()


@pytest.mark.parametrize("method", ON_SCORES)
def test_every_method_gives_a_valid_document(method):
    prior = validated(estimate_prior(gaussian(), method, Settings(seed=1), sample="s").to_json())
    assert prior["method"] == method
    assert prior["sample"] == "s"
    assert prior["alpha_ci"][0] <= prior["alpha"] <= prior["alpha_ci"][1]
    assert prior["beta_ci"][0] <= prior["beta"] <= prior["beta_ci"][1]
    assert prior["auc"] > prior["auc_pu"]
    assert prior["curve"].keys() == {"alpha_plus", "beta_plus"}


def test_all_methods_side_by_side():
    prior = estimate_prior(gaussian(), "all", Settings())
    document = validated(prior.to_json())
    assert [entry["method"] for entry in document["estimates"]] == ON_SCORES
    assert document["method"] == "auto"
    table = summarize_prior(prior)
    assert all(any(line.startswith(method) for line in table) for method in ON_SCORES)


def test_the_auc_of_the_classes_is_recovered():
    rng = np.random.default_rng(0)
    y = rng.random(20_000) < 0.3
    sketch = Sketch.from_samples(rng.normal(size=5000) + 2, rng.normal(size=20_000) + 2 * y)
    document = estimate_prior(sketch, "auto", Settings(beta=1.0)).to_json()
    assert document["auc"] == pytest.approx(0.921, abs=0.03)


def test_feature_methods_need_features():
    needs_features = [n for n, e in ESTIMATORS.items() if e.needs == "features"]
    for method in needs_features:
        with pytest.raises(UsageError, match=method):
            estimate_prior(gaussian(), method, Settings())


def test_a_failure_is_a_valid_document_that_says_why(tmp_path):
    document = validated(failed_prior("all", 3, InputError("too small"), "s").to_json())
    assert document["warnings"] == [{"code": "bad-input", "message": "too small"}]
    (tmp_path / "prior.json").write_text(json.dumps(document))
    with pytest.raises(EstimationError, match="small"):
        read_prior(str(tmp_path / "prior.json"))


@pytest.mark.parametrize("method", ["auto", "bound", "msgmm"])
def test_a_document_gives_back_the_prior_it_was_made_of(method):
    sketch = gaussian()
    prior = estimate_prior(sketch, method, Settings(), sample="liver")
    read = parse_prior("p.json", json.loads(json.dumps(prior.to_json())))
    assert read.to_json() == prior.to_json()
    assert shares_for(read, sketch)[1:] == shares_for(prior, sketch)[1:]
    assert read.sample_name("x/prior.json") == "liver"


WRONG = [
    *({"alpha": x} for x in ("0.2", True, False, -0.1, 1.1, float("nan"), 10**400, [0.2])),
    {"beta": None},
    *({"alpha_ci": x} for x in ([0.3, 0.2], [0.1], [0.1, float("nan")], "ab", 0.2)),
    *({"draws": x} for x in ([[0.1]], [[0.1, 2]], 7, [["a", "b"]])),
    *({"n_labeled": x} for x in (-1, 2**70, 1.5, True)),
    *({"warnings": x} for x in (["few-rows"], [{"code": 1, "message": "m"}], None)),
    *({"curve": x} for x in ([1], {"a": {"proportion": [0.1]}}, {"a": 3})),
    {"estimates": [{"method": "auto"}]},
    {"seed": "0"},
    {"sample": 3},
]


@pytest.fixture(scope="module")
def document() -> dict:
    return estimate_prior(gaussian(), "bound", Settings()).to_json()


@pytest.mark.parametrize("change", WRONG, ids=str)
def test_a_document_is_checked_whole(change, document):
    parse_prior("p.json", document)
    with pytest.raises(InputError, match=r"^p\.json: .*punoise\.prior/1"):
        parse_prior("p.json", document | change)


@pytest.mark.parametrize("learned", [True, False])
def test_scores_that_tell_nothing_rule_nothing_out(learned):
    """Labeled rows that score no higher: as chance has it, or because the score is turned round."""
    for gap, reverse in ((0.0, False), (-2.0, not learned)):
        prior = estimate_prior(gaussian(gap=gap), "auto", Settings(), learned=learned)
        document = validated(prior.to_json())
        for key in ("alpha", "alpha_ci", "beta", "beta_ci", "alpha_max", "beta_min", "draws"):
            assert document[key] is None
        assert document["estimates"] == []
        assert document["auc_pu"] == pytest.approx(gaussian(gap=gap).auc)
        assert not re.search(r"\d", summarize_prior(prior)[0])
        found = {notice.code for notice in prior.notices}
        assert "indistinguishable" in found
        assert ("reversed-scores" in found) == reverse
