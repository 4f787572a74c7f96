"""The command line: the only place that names concrete parts. One file for each command."""
