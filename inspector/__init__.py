"""What ctrace knows: capture a run, read its log, build a Session, ask it questions."""
