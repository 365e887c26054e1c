"""Two methods over five seeds and two kinds of users: means, spreads, paired tests, and a page to
send around."""

from pathlib import Path

import foltr

COMMON = dict(data="Synthetic(queries=100)", rounds=40)

table = foltr.compare(
    [
        foltr.Experiment(clients=1, learner="PDGD(sessions=80)", **COMMON),
        foltr.Experiment(clients=20, learner="PDGD(sessions=4)", **COMMON),
    ],
    baseline=0,
    names=["PDGD, centralised", "FPDGD, 20 clients"],
    seeds=(1, 2, 3, 4, 5),
    users=["Cascade(kind='perfect')", "Cascade(kind='informational')"],
    out="compare-methods/runs",
)
print(table)

out = Path("compare-methods")
(out / "table.tex").write_text(table.latex(), encoding="utf-8")
(out / "table.csv").write_text(table.csv(), encoding="utf-8")
table.report(out / "report.html")
print(
    f"also as {', '.join(str(out / name) for name in ('table.tex', 'table.csv', 'report.html'))}"
)
