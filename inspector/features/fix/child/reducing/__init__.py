"""Try the candidates of a reproducer: a fork for each, of one process that has imported torch."""
