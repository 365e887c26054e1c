"""Users of your own: how many results must users read for a ranker to learn from them?"""

from pathlib import Path

import foltr

foltr.use(Path(__file__).parent / "components" / "hurried.py")

for patience in (1, 3, 10):
    users = foltr.Hurried(patience=patience)
    experiment = foltr.Experiment(
        data="Synthetic(queries=100)", users=users, clients=20, rounds=100
    )
    result = experiment.run(out="own-click-model")
    final = result.final
    print(
        f"{users!r:20} offline nDCG@10 {final['ndcg@10']:.3f}, online MaxRR in the last round"
        f" {final['maxrr']:.3f}"
    )
