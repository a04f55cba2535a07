"""The child process of `ctrace memory`: calls a model or runs a program, and follows each storage from its allocation
to its end.
"""
