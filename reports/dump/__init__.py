"""Write the kernels, the wrapper and the graph of a run as standalone files; needs no torch."""
