"""Every file in this folder adds partitions; `foltr.spec` finds them."""
