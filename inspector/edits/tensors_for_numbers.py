"""Tensors in place of Python's numbers, which torch.compile reads from tensors or specializes on."""


def registered(name: str, torch: str, start: str, *, owner: str = "self") -> str:
    """Return the statement that keeps a number in a buffer; a checkpoint has it no more than it had the number."""
    return f'{owner}.register_buffer("{name}", {torch}.tensor({start}), persistent=False)'


def detached(tensor: str, *, is_operand: bool) -> str:
    """Return a tensor in place of the number that `.item()` reads from it, which has no gradient.

    `is_operand`: it needs no parentheses before a dot.
    """
    if not is_operand:
        return f"({tensor}).detach()"
    return f"{tensor}.detach()"
