"""Every file in this folder adds rankers; `foltr.spec` finds them."""
