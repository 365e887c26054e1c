"""A federation in operation: the server and the nodes, their settings and their state."""
