"""JSON of `ctrace fix` and `ctrace repro`."""
