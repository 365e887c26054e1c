"""Every file in this folder adds aggregators; `foltr.spec` finds them."""
