"""Every file in this folder adds privatizers; `foltr.spec` finds them."""
