"""Classifiers of labeled against unlabeled rows, one file per kind, and the models they give."""

from . import choice, logistic, networks, semi_supervised, trees
from .base import CLASSIFIERS, Classifier, Fit, Model, Training

__all__ = [
    "CLASSIFIERS",
    "Classifier",
    "Fit",
    "Model",
    "Training",
    "choice",
    "logistic",
    "networks",
    "semi_supervised",
    "trees",
]
