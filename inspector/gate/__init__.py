"""`ctrace check`: compare runs with the policy and with the last state (lock). Start in `judge.py`."""
