"""What this machine gives: files, folders, threads, a terminal. Nothing here knows of rankers."""
