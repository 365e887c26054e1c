"""Tables and notes about some kinds of runs: attacks, uneven data, unlearning, privacy."""
