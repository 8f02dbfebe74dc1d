"""Classifiers of labeled against unlabeled rows, and the models that they give."""

from __future__ import annotations

from . import auto, logistic, networks, trees
from .base import Classifier, Model

CLASSIFIERS: dict[str, Classifier] = {
    "auto": auto.auto,
    "networks": networks.networks,
    "boosting": trees.boosting,
    "forest": trees.forest,
    "logistic": logistic.logistic,
}
MODELS: dict[str, type[Model]] = {
    "auto": auto.Chosen,
    "networks": networks.BaggedNetworks,
    "boosting": trees.Trees,
    "forest": trees.Trees,
    "logistic": logistic.Linear,
}
