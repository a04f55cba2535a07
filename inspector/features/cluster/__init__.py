"""A virtual cluster (`--world N`): what each rank of a job would compile and communicate, without the other ranks."""
