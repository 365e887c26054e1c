"""The simulated world as data: documents with labels, who holds them, who searches and clicks,
what devices stored."""
