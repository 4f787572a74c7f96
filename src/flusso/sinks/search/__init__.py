"""OpenSearch and its relatives: what they share, and one module for each client."""
