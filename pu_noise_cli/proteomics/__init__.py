"""Peptide-spectrum matches: .pin files, competition, PEPs and q-values. May import pipeline."""
