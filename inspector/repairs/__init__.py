"""Repairs: changes of the user's source and settings that are tried in a copy and proved before they are offered."""
