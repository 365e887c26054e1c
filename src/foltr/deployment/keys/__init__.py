"""Keys and certificates, the roster of the nodes that may take part, and how both are replaced."""
