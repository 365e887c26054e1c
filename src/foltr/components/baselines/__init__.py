"""Baselines: rankers trained on labels, for comparison; `foltr.spec` finds them."""
