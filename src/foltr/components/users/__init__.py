"""Every file in this folder adds click models; `foltr.spec` finds them."""
