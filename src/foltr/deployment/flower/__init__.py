"""Flower carries the messages: its SuperLink, the doors before it, the server's session on it, and
a node's connection to it. `internals` holds everything of Flower that is not public."""
