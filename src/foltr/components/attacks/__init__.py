"""Every file in this folder adds attacks; `foltr.spec` finds them."""
