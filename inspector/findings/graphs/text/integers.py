"""Compute with the integers in expressions from untrusted logs."""

import ast

_MOST_POWER, _MOST_BASE = 8, 10**6


def calculated(left: int | None, operator: ast.operator, right: int | None) -> int | None:
    """Return the value of an operation, or None if an operand is unknown or the value is undefined or too large."""
    if left is None or right is None:
        return None
    match operator:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.FloorDiv():
            return left // right if right else None
        case ast.Mod():
            return left % right if right else None
        case ast.Pow() if 0 <= right <= _MOST_POWER and abs(left) < _MOST_BASE:
            return int(left**right)
    return None
