"""Files, locks, logs, processes, the terminal: what foltr needs of the machine."""
