"""A model at its real size, without weights: no parameter, buffer or random number gets storage (`--fake`)."""
