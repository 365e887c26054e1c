"""Where `Client.step` runs: compiled in this process (`local`), or plainly with checks
(`debug`)."""
