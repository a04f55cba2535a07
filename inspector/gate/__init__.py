"""`ctrace check`: what a project allows (policy), what was there before (lock), and whether a run is within both."""
