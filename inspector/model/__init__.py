"""What a Session consists of: plain records (`msgspec.Struct`) and enums, one module a subject.

Nothing here reads a log, decides or words anything; every other package may import it. Start in `session.py`.
"""
