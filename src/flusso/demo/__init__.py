"""The demo: an embedded Postgres, a shop, and a story told with them."""
