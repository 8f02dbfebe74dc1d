"""Training on decoys: their labels are certain, and columns may give them away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..notices import Notice
from ..scale.engine import ShareDone
from ..score.classifiers import Training
from ..score.training import (
    Sample,
    Survey,
    Trained,
    encode_sample,
    is_score,
    learn,
    read_survey,
)
from ..settings import ScoreSettings
from ..tables.rows import Rows

DEFAULT_CLASSIFIER = "semi-supervised"  # makes use of labels that are certain
CHANCE = 1e-4  # at which text that is found in one kind of match only is taken for names
MAX_NAMED = 3  # discriminating features
MIN_ERRORS = 4.0  # standard errors between the means of a discriminating feature


@dataclass(frozen=True, eq=False)
class TrainedOnDecoys:
    """A score that separates decoys from targets, and the features that may explain it."""

    trained: Trained
    discriminating: tuple[str, ...] = ()


def train_on_decoys(
    rows: Rows,
    survey: Survey,
    settings: ScoreSettings,
    progress: ShareDone = lambda fraction: None,
) -> TrainedOnDecoys:
    """Train on a sample without columns of names; a single numeric column may be the score."""
    untrained = read_survey(rows, survey, settings)
    if is_score(untrained, settings, groups_matter=True):
        return TrainedOnDecoys(untrained)
    settings = replace(settings, classifier=settings.classifier or DEFAULT_CLASSIFIER)
    sample = without_names(encode_sample(rows, survey, untrained))
    learned = learn(rows, untrained, sample, settings, progress)
    names = learned.trained.model.encoding.feature_names
    return TrainedOnDecoys(
        learned.trained, discriminating_features(learned.training, learned.scores, names)
    )


def without_names(sample: Sample) -> Sample:
    """The sample without text that separates targets from decoys.

    Names of proteins carry the prefix of decoys, so most of them occur in one kind of match only. A
    text column is left out if more of its texts do so than chance allows.
    """
    raw, labeled, start = sample.raw, sample.labeled, 0
    share, pure_values = labeled.mean(), dict[str, int]()
    for column in sample.encoding.columns:
        places = slice(start, start + len(column.feature_names))
        start = places.stop
        if column.kind == "category":
            rows = raw[:, places].sum(0)
            of_labeled = raw[labeled, places].sum(0)
            pure = int(((rows > 0) & ((of_labeled == 0) | (of_labeled == rows))).sum())
            expected = float((share**rows + (1 - share) ** rows)[rows > 0].sum())
            if _poisson_tail(pure, expected) < CHANCE:
                pure_values[column.name] = pure
    if len(pure_values) == len(sample.encoding.columns):
        raise InputError("no feature is left: all columns are text that separates the two sets")
    return sample.without(
        pure_values.keys(),
        [
            Notice(
                "names-left-out",
                f"column {name!r} is not learned from: its text separates targets from decoys "
                f"({pure} of its values occur in one kind only)",
            )
            for name, pure in pure_values.items()
        ],
    )


def discriminating_features(
    training: Training, scores: NDArray[np.float64], names: Sequence[str]
) -> tuple[str, ...]:
    """The features with the most different means between labeled and similar unlabeled rows.

    Rows above the median score of the labeled ones are compared; if all labels are right, nearly
    all of the unlabeled rows there are of the labeled class, and no feature should differ.

    Parameters
    ----------
    scores : (n,)
        High for the labeled class.
    names : (d,)
    """
    similar = scores >= np.median(scores[training.labeled])
    labeled, unlabeled = (
        training.features[similar & kind] for kind in (training.labeled, ~training.labeled)
    )
    if min(len(labeled), len(unlabeled)) < 2:
        return ()
    variance = sum(part.var(0, dtype=np.float64) / len(part) for part in (labeled, unlabeled))
    difference = labeled.mean(0, dtype=np.float64) - unlabeled.mean(0, dtype=np.float64)
    errors = np.abs(difference) / np.sqrt(np.maximum(variance, np.finfo(np.float64).tiny))
    errors[variance == 0] = 0
    order = np.argsort(-errors, kind="stable")[:MAX_NAMED]
    return tuple(names[i] for i in order if errors[i] >= MIN_ERRORS)


def _poisson_tail(count: int, mean: float) -> float:
    """The probability of at least `count` events where `mean` are expected."""
    term, below = exp(-mean), 0.0
    for i in range(count):
        below += term
        term *= mean / (i + 1)
    return max(1 - below, 0.0)
