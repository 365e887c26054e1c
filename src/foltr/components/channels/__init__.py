"""Channels: how updates reach the server so that it does not see single ones; `foltr.spec` finds
them."""
