"""Every file in this folder adds learners; `foltr.spec` finds them."""
