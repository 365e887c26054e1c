"""Sources: where documents with labels come from; `foltr.spec` finds them."""
