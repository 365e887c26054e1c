"""The HTML page of a study: as one file, and live while runs are made (`foltr watch`)."""
