"""Code for eager calls only.

`torch.compiler.is_compiling()` is a constant while Dynamo traces, which then does not trace what depends on it.
"""

IS_COMPILING = "compiler.is_compiling()"
"""What text in eager only has in it, whatever the file calls torch."""


def head(torch: str = "torch") -> str:
    """Return the head of a block that only eager calls run."""
    return f"if not {torch}.{IS_COMPILING}:"


def guarded(torch: str, statement: str) -> str:
    """Return a statement as a block that only eager calls run."""
    return f"{head(torch)}\n    {statement}"


def tested(torch: str, operand: str) -> str:
    """Return a condition that only eager calls test; `operand` has parentheses if it binds less than `and`."""
    return f"not {torch}.{IS_COMPILING} and {operand}"


def chosen(torch: str, eager: str, compiled: str) -> str:
    """Return an expression that only eager calls compute, and compiled calls replace by another one."""
    return f"{compiled} if {torch}.{IS_COMPILING} else {eager}"
