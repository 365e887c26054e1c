"""Privacy guarantees: clipping, accounting, the ledger and its text. Mechanisms are in
`components/privatizers`."""
