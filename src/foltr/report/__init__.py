"""Reports of finished runs: grouping and comparison, statistics, tables, figures and the page.

The modules here are shared by all outputs. `tables` and `chapters` import them, `page` imports
all."""
