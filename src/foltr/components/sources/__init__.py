"""Every file in this folder adds data sources; `foltr.spec` finds them."""
