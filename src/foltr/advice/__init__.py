"""What error messages advise: other and earlier names, and what a component must have."""
