"""Click models of simulated users; `foltr.spec` finds them."""
