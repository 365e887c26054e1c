"""Reading and caching learning-to-rank files. What can be plugged in is in
`components/sources`."""
