"""One function for each command: settings in, results out. May import everything but the interfaces."""
