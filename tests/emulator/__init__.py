"""The kernels under the emulator: how they are built and run, and what is tried there."""
