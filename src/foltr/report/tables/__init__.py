"""A matrix as a table: for a terminal, for LaTeX, as CSV."""
