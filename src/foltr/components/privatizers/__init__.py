"""Privatizers: noise and clipping that limit what messages reveal; `core/spec.py` finds them."""
