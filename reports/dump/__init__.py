"""Write kernels as files, without torch: those of a run with wrapper and graph, or each as a package of its own.

What is text lies in `templates/`; the modules compute what fills them.
"""
