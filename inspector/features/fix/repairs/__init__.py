"""Repairs: changes to the user's source and settings, tried and proved in a copy before they are offered."""
