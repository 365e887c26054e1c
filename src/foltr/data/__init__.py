"""Where ranked data comes from. Every file with a source in it adds data sources; `foltr.spec` finds them."""
