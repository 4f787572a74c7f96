"""Watch: events as lines of a log."""
