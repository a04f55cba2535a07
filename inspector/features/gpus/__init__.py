"""The virtual GPU: code for a GPU that is not there."""
