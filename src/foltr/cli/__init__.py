"""The command line: one module per command. A module imports what its command needs when the
command is called."""
