"""All that can be plugged in, a folder per family and a file per component. Families never import
each other."""
