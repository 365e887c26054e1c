"""Measures: how good a ranker is, what happens in a round, and what a run costs. The columns of
metrics.csv and result.json that every run has are in `simulation/runs/columns.py`."""
