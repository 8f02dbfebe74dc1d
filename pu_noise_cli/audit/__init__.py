"""Rows verified by hand: how they are drawn, and what their verdicts say. May import posterior."""
