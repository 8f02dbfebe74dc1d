"""Scores: classifiers, models, SCORES and the sketch of it. May import scale and tables."""

from . import classifiers, networks  # each enters its classifiers in the registry

__all__ = ["classifiers", "networks"]
