"""Attacks on what leaves the devices: what an observer can learn, compared with the ledger's
guarantees."""
