from data_folders import own_folders, shared, write  # noqa: F401
