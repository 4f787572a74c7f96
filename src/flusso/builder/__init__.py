"""Build: which documents a change touches, and what they look like now."""
