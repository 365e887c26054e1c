"""From runs to evidence: what is compared with what, statistics, tables, figures and the page."""
