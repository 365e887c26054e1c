"""Privatizers: noise and clipping that limit what messages reveal; `foltr.spec` finds them."""
