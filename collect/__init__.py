"""collect: see the README."""
