"""One experiment as a run in a folder: found finished, resumed, or made."""
