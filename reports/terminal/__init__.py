"""Screens: what a person reads in a terminal. Each is a stream of rich renderables; `render` prints one."""

from ctrace.reports.terminal.breaks import breaks_screen, lesson_screen
from ctrace.reports.terminal.explain import explain_screen
from ctrace.reports.terminal.parts import render

__all__ = ["breaks_screen", "explain_screen", "lesson_screen", "render"]
