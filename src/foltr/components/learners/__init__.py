"""Learners: how a client computes an update or a reward from clicks; `foltr.spec` finds them."""
