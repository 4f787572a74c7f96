"""What keeps a schema from working on a database, found before anything runs. Nothing is changed."""
