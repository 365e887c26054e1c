"""The simulator: an experiment becomes a run, many become a sweep, audits attack what leaves the
clients, and exports take the ranker elsewhere."""
