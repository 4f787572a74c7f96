"""Watch: status, lag and logs."""
