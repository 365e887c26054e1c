"""Unlearners: how a trained ranker forgets clients; `foltr.core.spec` finds them."""
