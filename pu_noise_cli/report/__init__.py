"""Results to one HTML file, to figures and to a summary for the terminal."""
