"""One function for each command: settings in, results out. May import all but the interfaces."""
