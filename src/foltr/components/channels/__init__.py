"""Channels: how updates reach the server so that it does not see single ones; `core/spec.py` finds
them."""
