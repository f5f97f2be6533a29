"""Compile a tokenizer into frozen tables, or refuse with a reason in words (see README.md beside this package)."""
