"""Results to one HTML file and figures. May import every room but cli."""
