"""OpenSearch and Elasticsearch: what they share, and one module for each client.

`connection` holds the settings, `opensearch` and `elasticsearch` the clients; all else speaks plain HTTP
through the small `Client` of `server`, so another relative adds one module. `sink` is the sink itself,
`delivery` gets a batch of writes across with the help of the pure `bulk`, `generations` knows names and
aliases, `own` the indexes for state and quarantine, `query` is pure.
"""
