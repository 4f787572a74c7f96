"""OpenSearch and its relatives: what they share, and one module for each client.

`opensearch` holds the settings and the client; all else speaks plain HTTP through the small `Client` of
`server`, so a relative adds one module. `sink` is the sink itself, `delivery` gets a batch of writes across
with the help of the pure `bulk`, `generations` knows names and aliases, `query` and `rawjson` are pure.
"""
