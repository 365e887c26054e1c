"""Many experiments of one file: planned, made by workers, and followed while they run."""
