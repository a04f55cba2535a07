"""Numbers of a module in buffers, so that torch.compile does not specialize on them."""


def registered(name: str, torch: str, start: str, *, owner: str = "self") -> str:
    """Return the statement that keeps a number in a buffer; a checkpoint has it no more than it had the number."""
    return f'{owner}.register_buffer("{name}", {torch}.tensor({start}), persistent=False)'
