"""Compare indexes with the tables they are made from, and repair what differs."""
