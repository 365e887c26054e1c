"""Baselines: rankers trained on labels, for comparison; `foltr.core.spec` finds them."""
