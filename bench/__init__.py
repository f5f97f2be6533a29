"""The bench harness: `python -m bench CASE`. See README.md."""
