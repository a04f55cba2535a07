"""CUDA graphs: `fold.py` says what became of each one, `view.py` sums it up."""
