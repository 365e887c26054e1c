"""Partitions: which client holds which documents and how it clicks; `foltr.spec` finds them."""
