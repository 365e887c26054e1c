"""Every file in this folder adds optimizers; `foltr.spec` finds them."""
