"""How Dynamo rewrote a function: which instructions it kept, which it inserted, and why. Start in `explaining.py`."""
