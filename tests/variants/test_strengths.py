"""Levels of evidence: the published ones, and rules of one's own."""

import json
import re

import pytest

from pu_noise_cli.errors import InputError, UsageError
from pu_noise_cli.posterior.groups import COUNTED, ESTIMATED
from pu_noise_cli.variants.rules import GROUP_COLUMNS, Grading, read_rule

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
    found = {level.name: level for level in Grading.read("acmg").levels(0.0441)}
    assert found.keys() == PUBLISHED.keys()
    for name, (lr, posterior) in PUBLISHED.items():
        assert found[name].lr == pytest.approx(lr, rel=0.003), name
        digits = len(str(posterior).split(".")[1]) if posterior > 1e-4 else 5
        assert round(found[name].posterior, digits) == posterior, name


def test_very_strong_evidence_has_odds_of_350_at_a_prior_of_a_tenth():
    found = {level.name: level.lr for level in Grading.read("acmg").levels(0.1)}
    assert found["pathogenic_very_strong"] == 350
    near = {level.name: level.lr for level in Grading.read("acmg").levels(0.1001)}
    assert near["pathogenic_very_strong"] == pytest.approx(350, rel=0.01)


def own_rule(rule, tmp_path):
    """A rule that is read from a file."""
    (tmp_path / "rule.json").write_text(json.dumps(rule))
    return Grading.read(str(tmp_path / "rule.json"))


@pytest.mark.parametrize(
    ("rule", "place"),
    [
        ([], "punoise.evidence/1"),
        ({"schema": "x", "levels": []}, "punoise.evidence/1"),
        ({"schema": "punoise.evidence/1"}, "levels"),
        ({"schema": "punoise.evidence/1", "levels": []}, "levels"),
        ({"schema": "punoise.evidence/1", "levels": [{"name": "a", "exponent": 1}]}, "combining"),
        *(
            ({"schema": "punoise.evidence/1", "levels": [{"name": "a", "lr": lr}]}, place)
            for lr, place in [
                (float("inf"), "levels[0].lr"),
                ("much", "levels[0].lr"),
                (-2, "levels[0].lr"),
                (1, "'a'"),
            ]
        ),
        ({"schema": "punoise.evidence/1", "levels": [{"name": "a"}]}, "levels[0]"),
    ],
)
def test_a_malformed_rule_is_refused(rule, place, tmp_path):
    with pytest.raises(InputError, match=rf"rule\.json.*{re.escape(place)}"):
        own_rule(rule, tmp_path)


# as a file may have them; the first is impossible at a prior of 0.2 only
CRAFTED = [
    {"levels": [{"name": "a", "exponent": -1}], "published": [{"prior": 0.2, "odds": 0}]},
    {"levels": [{"name": "a", "exponent": 10**400}], "combining": []},
    {"levels": [{"name": "a", "exponent": 1}], "combining": [{"exponents": ["x"], "posterior": 1}]},
    {"levels": [{"name": "a" * 10**6, "lr": 2}]},
    {"levels": [{"name": 7, "lr": 2}]},
    {"levels": [{"name": "a", "lr": True}]},
    {"levels": [{"name": "a", "lr": float("nan")}]},
    {"levels": [{"name": str(i), "lr": 2} for i in range(10**4)]},
    {"levels": {"a": 1}},
]


@pytest.mark.parametrize("rule", CRAFTED, ids=range(len(CRAFTED)))
def test_a_crafted_rule_is_refused(rule, tmp_path):
    with pytest.raises(InputError, match=r"rule\.json"):
        own_rule({"schema": "punoise.evidence/1", **rule}, tmp_path).levels(0.2)


def test_half_a_character_in_a_rule_is_text(tmp_path):
    rule = {"schema": "punoise.evidence/1", "levels": [{"name": "\ud800", "lr": 2}]}
    (level,) = own_rule(rule, tmp_path).levels(0.2)
    assert level.name == "\\ud800"


def test_only_rules_of_the_package_go_by_name(tmp_path):
    rule = {"schema": "punoise.evidence/1", "levels": [{"name": "a", "lr": 2}]}
    (tmp_path / "own.json").write_text(json.dumps(rule))
    with pytest.raises(UsageError):
        read_rule(str(tmp_path / "own"))
    assert [level.lr for level in read_rule(str(tmp_path / "own.json")).levels] == [2]
    assert read_rule("acmg").levels


@pytest.mark.parametrize(
    ("names", "codes", "said"),
    [
        (("a", "a"), ("A", "B"), "two levels .*'a'"),
        (("a", "b"), ("A", "A"), "two levels .*'A'"),
        (("a", "indeterminate"), ("A", "B"), "no level .*'indeterminate'"),
        *((("a", "b"), ("A", name), f"no level .*'{name}'") for name in GROUP_COLUMNS),
    ],
)
def test_levels_have_names_of_their_own(names, codes, said, tmp_path):
    found = [
        {"name": name, "code": code, "lr": lr}
        for name, code, lr in zip(names, codes, (5, 9), strict=True)
    ]
    with pytest.raises(InputError, match=said):
        own_rule({"schema": "punoise.evidence/1", "levels": found}, tmp_path)


def test_the_columns_of_groups_are_those_that_levels_avoid():
    assert ("group", *COUNTED, *ESTIMATED) == GROUP_COLUMNS
