"""What several tests share: ready-made sessions and logs, golden files, where things lie."""
