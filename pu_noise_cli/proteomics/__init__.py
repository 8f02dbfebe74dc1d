"""Peptide-spectrum matches: .pin files, competition, PEPs and q-values. May import pipeline."""

from . import levels  # which enters matches among the domains

__all__ = ["levels"]
