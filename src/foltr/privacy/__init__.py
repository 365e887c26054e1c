"""Every file in this folder adds privatizers, or accounts for them; `foltr.spec` finds them."""
