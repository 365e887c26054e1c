"""Sweeps: the experiments of one file, planned, run by workers, and observed while they run."""
