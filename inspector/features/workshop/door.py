"""`ctrace kernels` with a file: eject, apply, tune, edit, wrap."""

from ctrace.inspector.features.doors import Door

DOOR = Door(commands=("kernels eject", "kernels apply", "kernels tune", "kernels edit", "kernels wrap"))
