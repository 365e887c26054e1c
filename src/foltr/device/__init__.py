"""A private search engine on one device: it indexes the documents of its user, ranks them, learns
from clicks, and shares only what a federation's agreement says."""
