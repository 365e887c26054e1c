"""Every file in this folder adds unlearners; `foltr.spec` finds them."""
