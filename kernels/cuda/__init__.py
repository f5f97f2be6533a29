"""The kernels that encode a batch on a GPU, and in which order they run. See README.md."""
