"""The command line: parse options, make one call, print. Nothing imports this room."""
