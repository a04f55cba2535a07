"""What Dynamo made of a function, instruction by instruction: what stayed, what it put in, and what for."""
