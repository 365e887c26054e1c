"""Reading and caching learning-to-rank files. Sources that can be chosen are in
`components/sources`."""
