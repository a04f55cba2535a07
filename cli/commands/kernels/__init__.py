"""`ctrace kernels` and the commands below it: list kernels, take them out, change them, put them back."""
