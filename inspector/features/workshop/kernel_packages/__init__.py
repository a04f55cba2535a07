"""Put an ejected kernel package back into a model, tune it, and check it whenever it is edited."""
