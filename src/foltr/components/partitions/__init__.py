"""Partitions: which client holds which documents and how it clicks; `core/spec.py` finds them."""
