"""Declare: where it runs. flusso.toml, secrets, and the checks over both."""
