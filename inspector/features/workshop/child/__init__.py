"""Apply a kernel package to a model, check the operator on the model's own values, and time both sides."""
