"""A saved model scores new rows as the result it was saved from, whatever was asked for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import pu_noise_cli as punoise
from pu_noise_cli.answer import write_answer
from pu_noise_cli.posterior.columns import CellColumn, RangeColumn

FEATURES = ["a", "b", "c"]


def table(rows: int, fraction: float, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    positive = rng.random(rows) < fraction
    frame = pd.DataFrame(rng.normal(size=(rows, 3)) + 1.5 * positive[:, None], columns=FEATURES)
    return frame.assign(gene=rng.choice(["u", "v", "w"], rows))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"by": "gene"},
        {"by": "gene", "bounds": True, "fdr": 0.2},
        {"target_alpha": 0.05},
        {"target_alpha": 0.05, "bounds": True},
        {"bounds": True, "fdr": 0.1},
        {"alpha": 0.3, "beta": 0.9},
        {"method": "alphamax"},
        {"group_column": "gene", "bounds": True},
        {"score_column": "a"},
        {"score_column": "a", "group_column": "gene", "bounds": True},
        {"labeled_are": "negatives"},
        {"labeled_are": "negatives", "by": "gene"},
    ],
    ids=lambda options: "-".join(map(str, options)) or "plain",
)
def test_a_loaded_model_scores_as_its_result(options, tmp_path):
    labeled, unlabeled, new = table(150, 0.9, 1), table(600, 0.3, 2), table(300, 0.3, 3)
    learned = {} if "score_column" in options else {"classifier": "logistic"}
    drop = [] if {"by", "group_column", "score_column"} & options.keys() else ["gene"]
    result = punoise.estimate(labeled, unlabeled, drop_columns=drop, **learned, **options)
    needed = ["a"] if "score_column" in options else FEATURES
    new = new[[*needed, "gene"] if "by" in options else needed]
    result.save(tmp_path / "model.punoise")
    loaded = punoise.load(tmp_path / "model.punoise")
    pd.testing.assert_frame_equal(loaded.score(new), result.score(new), check_exact=True)
    assert loaded.prior | {"curve": None} == result.prior | {"curve": None}
    again = loaded.estimate_new(new).rows
    pd.testing.assert_frame_equal(again, result.estimate_new(new).rows, check_exact=True)


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("whole", CellColumn(np.arange(3))),
        ("text", CellColumn(np.array(["a", "b", "c"]))),
        ("numbers", RangeColumn(np.array([0.5]), np.array([1.0, 2.0]))),
        ("a-hyphen", CellColumn(np.zeros(3))),
    ],
)
def test_a_column_that_could_not_be_read_again_is_not_written(name, column, tmp_path):
    rng = np.random.default_rng(0)
    result = punoise.estimate(rng.normal(2, 1, 100), rng.normal(0, 1, 500))
    answer = replace(result.answer, columns={**result.answer.columns, name: column})
    with pytest.raises(TypeError, match=name):
        write_answer(answer, str(tmp_path / "model.punoise"))
