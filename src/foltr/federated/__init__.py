"""Federations of real nodes: their keys, and the roster of who takes part."""
