"""The transform: classifiers of labeled against unlabeled rows, by name."""

from .base import Classifier, Model
from .logistic import Linear, logistic

CLASSIFIERS: dict[str, Classifier] = {"logistic": logistic}
MODELS: dict[str, type[Model]] = {"logistic": Linear}

__all__ = ["CLASSIFIERS", "MODELS"]
