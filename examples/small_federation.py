"""Twenty devices learn to rank from their own clicks, beside one learner that sees every click."""

import foltr

COMMON = dict(
    data=foltr.Synthetic(queries=200), users=foltr.Cascade(kind="navigational"), rounds=100
)

federated = foltr.Experiment(clients=20, learner=foltr.PDGD(sessions=4), **COMMON)
central = foltr.Experiment(clients=1, learner=foltr.PDGD(sessions=80), **COMMON)

for name, experiment in (("20 devices", federated), ("one learner", central)):
    # found, not repeated, when run again
    result = experiment.run(out="small-federation", threads=2)
    rounds, ndcg = result.curve("ndcg@10")
    _, shown = result.curve("online_ndcg@10")
    print(f"{name:12} {result.final['interactions']:,} interactions in {result.folder.name}")
    print(
        f"{'':12} offline nDCG@10 {ndcg[0]:.3f} before, {ndcg[-1]:.3f} after {rounds[-1]} rounds"
    )
    print(f"{'':12} nDCG@10 of the lists that users saw on the way: {shown.mean():.3f}")
