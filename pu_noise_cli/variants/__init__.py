"""Strengths of evidence and the scores at which they begin. May import posterior."""
