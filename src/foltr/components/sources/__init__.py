"""Sources: where documents with labels come from; `foltr.core.spec` finds them."""
