"""Channels: how updates reach the server, if not each in the clear; `foltr.spec` finds them."""
