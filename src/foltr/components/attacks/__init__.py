"""Attacks: what malicious clients click or send; `foltr.core.spec` finds them."""
