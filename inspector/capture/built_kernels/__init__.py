"""Measure kernels that are built and run: resources, machine code, times, facts of the GPU. Start in
`record_built_kernels.py`.
"""
