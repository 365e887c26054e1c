"""Optimizers: how the server steps along a direction; `foltr.core.spec` finds them."""
