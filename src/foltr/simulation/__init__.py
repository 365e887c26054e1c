"""What a simulation adds to a federation: malicious clients, clients who leave, and measures on
held-out queries."""
