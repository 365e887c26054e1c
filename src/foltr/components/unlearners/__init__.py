"""Unlearners: how a trained ranker forgets clients; `foltr.spec` finds them."""
