"""learn: see the README."""
