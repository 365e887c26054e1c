"""Services of the machine: files, folders, threads, tables. Nothing here knows of rankers."""
