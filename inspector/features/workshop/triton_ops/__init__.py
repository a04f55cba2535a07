"""Write a `torch.library.triton_op` around a Triton kernel that a user wrote and launches."""
