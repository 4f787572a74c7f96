"""The Spark source on its own: every change of chosen tables as rows, without an index."""
