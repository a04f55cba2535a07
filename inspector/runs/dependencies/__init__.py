"""What the result of a run depends on: decides whether an earlier result still holds. Start in `answers.py`."""
