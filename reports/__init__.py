"""Reports of a Session and of a check: one module or package per format."""
