"""A trained ranker for other programs: one file per format; `export.py` has the table."""
