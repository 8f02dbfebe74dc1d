"""Scores: classifiers, models, SCORES and the sketch of it. May import scale and tables."""
