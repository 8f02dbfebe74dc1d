"""Scores, alpha and beta to posteriors, bounds and tables of them. May import prior."""
