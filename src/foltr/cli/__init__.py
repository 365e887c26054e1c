"""The command line: one module per command. A module loads what it needs when its command is
called."""
