"""Optimizers: how the server steps along a direction; `foltr.spec` finds them."""
