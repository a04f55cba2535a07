"""Screens: what a person reads in a terminal, one file each; every screen is a stream of rich renderables."""
