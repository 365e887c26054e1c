"""The components of an experiment, one folder per family; every file in a folder adds some."""
