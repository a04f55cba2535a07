"""`ctrace.yaml`: which models are checked, what is allowed, what is limited. Start in `policy_model.py`."""
