"""Every file in this folder adds baselines: rankers trained on labels, as levels; `foltr.spec`
finds them."""
