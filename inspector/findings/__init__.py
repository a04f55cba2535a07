"""What a run did, subject by subject: a fold decides, a view answers questions."""
