"""Every file in this folder adds channels: how updates reach the server; `foltr.spec` finds
them."""
