"""What finds the wrong kernel in the child process, with torch.

`watched_kernels.py` lets Inductor's code tell before and after each kernel; `node_values.py` computes what a kernel
should have written, in eager and in float64; `kernel_judge.py` compares; `pieces.py` finds the operation inside a
kernel and the change that makes the error go away; `accuracy_task.py` joins them.
"""
