"""The components of an experiment, one folder per family. Every file in a folder adds some; a file
whose name begins with _ holds a helper of its family."""
