"""The page of `foltr device search`."""
