"""Learners: how a client computes an update or a reward from clicks; `core/spec.py` finds them."""
