"""Rules of evidence that come with the package, as data."""
