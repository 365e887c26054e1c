"""The command line: the functions of a module are commands of one subject. A module imports what
its command needs when the command is called."""
