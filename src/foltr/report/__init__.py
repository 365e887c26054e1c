"""From runs to evidence: what is compared with what, statistics, tables, figures and the page.

The modules here are shared by all outputs. `tables` and `chapters` import them, `page` imports
all."""
