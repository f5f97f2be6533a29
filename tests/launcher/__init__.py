"""Launching: the pure parts by themselves, and all of it over a CuPy that is none."""
