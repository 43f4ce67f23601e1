"""analysis: see the README."""
