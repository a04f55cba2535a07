"""Write the kernels, the wrapper and the graph of a run as files that run by themselves; without torch."""
