"""The processes of a federation between machines (`foltr serve`, `foltr node`, `foltr gateway`):
their settings, their state on disk, and the status page."""
