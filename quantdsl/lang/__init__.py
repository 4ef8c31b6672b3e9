"""The front end: text to tokens, syntax tree and diagnostics, and back to canonical text."""
