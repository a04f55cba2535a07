"""`ctrace check`: compare runs with the policy, and with the state that the lock recorded.

Start in `judging.py`.
"""
