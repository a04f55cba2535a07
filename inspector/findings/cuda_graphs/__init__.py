"""CUDA graphs: `cuda_graph_fold.py` finds whether torch recorded or skipped each one, `cuda_graph_view.py` summarizes
them.
"""
