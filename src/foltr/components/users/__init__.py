"""Click models of simulated users; `foltr.core.spec` finds them."""
