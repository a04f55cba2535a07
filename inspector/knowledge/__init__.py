"""What ctrace knows before it sees a program: advice, GPUs, releases of torch, words."""
