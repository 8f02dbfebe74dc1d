"""Tables and files in and out. May import errors, notices and numerics."""
