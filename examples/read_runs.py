"""Many runs as one tidy table: choose, group, plot or export them."""

from collections import defaultdict
from statistics import mean

import foltr

for sessions in (2, 8):
    for seed in (1, 2, 3):
        learner = foltr.PDGD(sessions=sessions)
        foltr.Experiment(
            data="Synthetic(queries=60)", learner=learner, clients=10, rounds=30, seed=seed
        ).run(out="read-runs")

runs = foltr.load_runs("read-runs")
print(runs)

by_sessions = defaultdict(list)
for row in runs.table.rows():  # plain Python: a row is a dictionary
    by_sessions[row["learner.sessions"]].append(row["ndcg@10"])
for sessions, values in by_sessions.items():
    print(f"{sessions} sessions: offline nDCG@10 {mean(values):.3f} over {len(values)} seeds")

first = runs.where(seed=1)
curves = first.rounds("ndcg@10", "online_ndcg@10")  # a row per run and round
print(f"{len(curves)} rows of {', '.join(curves.columns)}")

runs.to_csv("read-runs/runs.csv")
try:
    print(runs.to_pandas().groupby("learner.sessions")["online"].describe().round(2))
except foltr.Mistake as told:  # pandas is an extra
    print(told)
