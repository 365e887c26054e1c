"""The simulated world: data with labels, populations of clients, users that click, stored
updates."""
