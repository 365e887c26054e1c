"""Attacks on what leaves the devices: what an observer really learns, beside what the ledger
promises."""
