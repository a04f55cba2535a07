"""Which part of its graph Inductor is at work on."""


def current_stage() -> str:
    """Say whether Inductor is at work on a forward, a backward or an inference graph."""
    from torch._inductor.virtualized import V

    if getattr(V.graph, "is_backward", False):
        return "backward"
    return "inference" if getattr(V.graph, "is_inference", False) else "forward"
