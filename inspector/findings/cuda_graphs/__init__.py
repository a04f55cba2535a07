"""CUDA graphs: `fold.py` finds whether torch recorded or skipped each one, `view.py` summarizes them."""
