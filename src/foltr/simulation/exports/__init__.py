"""A trained ranker for other programs: one file per format; `formats.py` has the table."""
