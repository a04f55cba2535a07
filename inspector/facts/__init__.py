"""The parts of a Session: plain records (`msgspec.Struct`) and enums, one module per subject.

Nothing here reads a log, makes a decision or formats a report; every other package may import it. Start in
`session.py`.
"""
