"""Attacks: what malicious clients click or send; `foltr.spec` finds them."""
