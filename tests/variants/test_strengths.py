"""Levels of evidence: the published ones, and rules of one's own."""

import json

import numpy as np
import pandas as pd
import pytest
from pu_noise_cli.evidence.strengths import GROUP_COLUMNS, NONE, levels, read_rule, strengths

from pu_noise_cli.errors import InputError
from pu_noise_cli.posterior.groups import COUNTED, ESTIMATED

# Pejaver et al. 2022, at the prior of missense variants
PUBLISHED = {
    "pathogenic_supporting": (2.41, 0.100),
    "pathogenic_moderate": (5.79, 0.211),
    "pathogenic_strong": (33.5, 0.607),
    "pathogenic_very_strong": (1124, 0.981),
    "benign_supporting": (1 / 2.41, 0.0188),
    "benign_moderate": (1 / 5.79, 0.0079),
    "benign_strong": (1 / 33.5, 0.0014),
    "benign_very_strong": (1 / 1124, 0.00004),
}


def test_acmg_levels_at_the_published_prior():
    found = {level.name: level for level in levels("acmg", read_rule("acmg"), 0.0441)}
    assert found.keys() == PUBLISHED.keys()
    for name, (lr, posterior) in PUBLISHED.items():
        assert found[name].lr == pytest.approx(lr, rel=0.003), name
        digits = len(str(posterior).split(".")[1]) if posterior > 1e-4 else 5
        assert round(found[name].posterior, digits) == posterior, name


def test_very_strong_evidence_has_odds_of_350_at_a_prior_of_a_tenth():
    found = {level.name: level.lr for level in levels("acmg", read_rule("acmg"), 0.1)}
    assert found["pathogenic_very_strong"] == 350
    near = {level.name: level.lr for level in levels("acmg", read_rule("acmg"), 0.1001)}
    assert near["pathogenic_very_strong"] == pytest.approx(350, rel=0.01)


def test_a_strength_needs_its_bound_to_reach():
    rule = levels("acmg", read_rule("acmg"), 0.0441)
    low = np.array([1.1, 3.0, 35.0, 2000, 0.0, 0.02])
    high = np.array([9.0, 9.0, 200.0, 9000, 0.0005, 0.25])
    assert strengths(rule, low, high).tolist() == [
        *(NONE, "pathogenic_supporting", "pathogenic_strong", "pathogenic_very_strong"),
        *("benign_very_strong", "benign_supporting"),
    ]


@pytest.mark.parametrize(
    "rule",
    [
        [],
        {"schema": "x", "levels": []},
        {"schema": "punoise.evidence/1"},
        {"schema": "punoise.evidence/1", "levels": []},
        {"schema": "punoise.evidence/1", "levels": [{"name": "a", "exponent": 1}]},
        {"schema": "punoise.evidence/1", "levels": [{"name": "a", "lr": float("inf")}]},
        {"schema": "punoise.evidence/1", "levels": [{"name": "a"}]},
        {"schema": "punoise.evidence/1", "levels": [{"name": "a", "lr": "much"}]},
        {"schema": "punoise.evidence/1", "levels": [{"name": "a", "lr": 1}]},
        {"schema": "punoise.evidence/1", "levels": [{"name": "a", "lr": -2}]},
    ],
)
def test_a_malformed_rule_is_refused(rule):
    with pytest.raises(InputError, match=r"rule\.json"):
        levels("rule.json", rule, 0.1)


@pytest.mark.parametrize(
    ("names", "codes", "said"),
    [
        (("a", "a"), ("A", "B"), "two levels are called 'a'"),
        (("a", "b"), ("A", "A"), "two levels are called 'A'"),
        (("a", "indeterminate"), ("A", "B"), "no level can be called 'indeterminate'"),
        *((("a", "b"), ("A", name), f"no level can be called '{name}'") for name in GROUP_COLUMNS),
    ],
)
def test_levels_have_names_of_their_own(names, codes, said):
    found = [
        {"name": name, "code": code, "lr": lr}
        for name, code, lr in zip(names, codes, (5, 9), strict=True)
    ]
    with pytest.raises(InputError, match=said):
        levels("rule.json", {"schema": "punoise.evidence/1", "levels": found}, 0.1)


def test_the_columns_of_groups_are_those_that_levels_avoid():
    assert ("group", *COUNTED, *ESTIMATED) == GROUP_COLUMNS


@pytest.fixture
def prior_file(punoise, scores, tmp_path):
    punoise("estimate-prior", "--scores", scores, "--out", tmp_path / "prior.json")
    return tmp_path / "prior.json"


def test_posterior_with_everything(punoise, scores, prior_file, tmp_path):
    out = tmp_path / "p.parquet"
    options = ("--bounds", "--fdr", 0.1, "--evidence", "acmg", "--target-alpha", 0.0441)
    result = punoise("posterior", "--scores", scores, "--prior", prior_file, "--out", out, *options)
    table = pd.read_parquet(out)
    assert list(table.columns)[8:] == [
        *("target_alpha", "posterior_low", "posterior_high", "evidence", "call")
    ]
    assert (table["posterior_low"] <= table["posterior"]).all()
    assert (table["posterior"] <= table["posterior_high"]).all()
    assert (table["call"] == (table["fdr"] <= 0.1)).all()
    called = table.loc[table["set"] == "unlabeled", "call"].sum()
    assert f"{called} unlabeled rows" in result.err
    assert set(table["evidence"]) <= {*PUBLISHED, NONE}
    supported = table["evidence"].str.startswith("pathogenic")
    assert (table.loc[supported, "posterior_low"] >= 0.0999).all()


def test_own_levels(punoise, scores, tmp_path):
    rule = {"schema": "punoise.evidence/1", "levels": [{"name": "worth a look", "lr": 1.5}]}
    (tmp_path / "rule.json").write_text(json.dumps(rule))
    out = tmp_path / "p.tsv"
    options = ("--alpha", 0.3, "--evidence", tmp_path / "rule.json")
    punoise("posterior", "--scores", scores, "--out", out, *options)
    assert set(pd.read_csv(out, sep="\t")["evidence"]) == {"worth a look", NONE}


def test_a_target_alpha_equal_to_alpha_changes_no_level(punoise, scores, prior_file, tmp_path):
    rule = {
        "schema": "punoise.evidence/1",
        "levels": [{"name": "a", "lr": 1.2}, {"name": "b", "lr": 0.8}],
    }
    (tmp_path / "rule.json").write_text(json.dumps(rule))
    alpha = json.loads(prior_file.read_text())["alpha"]
    found = []
    for more in ((), ("--target-alpha", alpha)):
        out = tmp_path / "p.parquet"
        own = ("--prior", prior_file, "--evidence", tmp_path / "rule.json", *more)
        punoise("posterior", "--scores", scores, *own, "--out", out)
        found.append(pd.read_parquet(out)["evidence"].tolist())
    assert found[0] == found[1]
    assert set(found[0]) == {"a", "b", NONE}
