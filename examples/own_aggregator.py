"""An aggregator of your own: its result with one client that sends very large updates, and a
comparison with the mean."""

from pathlib import Path

import numpy as np

import foltr
from foltr.core import Cohort

foltr.use(Path(__file__).parent / "components" / "clipped_mean.py")
rule, mean = foltr.ClippedMean(radius=1.0), foltr.Mean()

# the last client shouts
updates = np.array([[1.0, 0.0], [0.9, 0.1], [1.0, 0.1], [-50.0, 0.0]], np.float32)
cohort = Cohort(clients=np.arange(4), updates=updates, weights=np.full(4, 4.0))
print("mean   ", mean.combine(cohort).round(3))
print("clipped", rule.combine(cohort).round(3))

common = dict(
    data="Synthetic(queries=100)", users="Cascade(kind='informational')", clients=20, rounds=50
)
for aggregator in (mean, rule):
    result = foltr.Experiment(aggregator=aggregator, **common).run(out="own-aggregator")
    print(f"{aggregator!r:24} offline nDCG@10 {result.final['ndcg@10']:.3f}")
