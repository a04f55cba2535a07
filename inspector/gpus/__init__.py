"""GPUs that code can be emitted for without having one, and what is known of each."""
