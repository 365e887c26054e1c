"""Logs of runs for other tools: `log.py`, and one file for each tool."""
