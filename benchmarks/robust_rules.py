"""What robust rules cost: as shares of the collecting of a round, measured in one process on one
thread.

Run: python benchmarks/robust_rules.py. Two rounds: 1000 clients x 4 sessions on the MSLR shape
(136 parameters), and 10 clients x 5 sessions on the MQ2007 shape (46), where what Python itself
costs counts most. Each rule gets what those clients sent. Ends with one line of JSON: by round and
rule, `us` (microseconds of CPU) and `of_round`, that over collecting."""

import json
from collections.abc import Callable

import numpy as np
from speed import best, made

from foltr.components.learners.pdgd import PDGD
from foltr.components.rankers.linear import Linear
from foltr.components.users.cascade import Cascade
from foltr.core import Aggregator, Ask, Cohort
from foltr.core.compiled import using
from foltr.core.seeds import stream
from foltr.core.spec import aggregators
from foltr.core.system.process import Threads
from foltr.core.world.population import iid
from foltr.simulation.engines.local import Local
from foltr.simulation.engines.twins import KERNELS

# clients, sessions, queries, attackers assumed
ROUNDS = {"MSLR": (1000, 4, 6000, 100), "MQ2007": (10, 5, 1017, 1)}
RULES = [
    "Mean()",
    "Median()",
    "TrimmedMean(malicious={m})",
    "Krum(malicious={m})",
    "Krum(malicious={more})",
    "MultiKrum(malicious={m})",
    "Bulyan(malicious={m})",
    "GeometricMedian()",
    "CenteredClipping()",
    "DnC(malicious={m})",
    "FLTrust()",
    "NNM(rule=TrimmedMean(malicious={m}), malicious={m})",
    "Bucketing(rule=Median())",
]


def task(rule: Aggregator, cohort: Cohort, repeats: int) -> Callable[[int], None]:
    memory = rule.init(cohort.updates.shape[1])

    def calls(t: int) -> None:
        for _ in range(repeats):
            rule(cohort, memory, stream(t))

    calls(0)  # compiles
    return calls


def measured(shape: str) -> dict[str, dict[str, float]]:
    clients, sessions, queries, m = ROUNDS[shape]
    data, learner, repeats = (
        made(shape, queries),
        PDGD(sessions=sessions),
        1 if clients > 100 else 50,
    )
    population = iid(data, Cascade(kind="navigational"), clients, sessions)
    local = Local(
        learner, Linear(), population, 1, np.empty((clients, 0), np.float32), threads=Threads(1)
    )
    params, everybody = (
        (0.3 * stream(4).normals(data.width)).astype(np.float32),
        np.arange(clients),
    )
    sent = local.collect(Ask(params, 0, clients), everybody).arrived
    cohort = Cohort(sent.clients, sent.updates, sent.weights, trusted=sent.updates.mean(axis=0))

    def collecting(t: int) -> None:
        for i in range(repeats):
            local.collect(Ask(params, t * repeats + i, clients), everybody)

    specs = [spec.format(m=m, more=clients // 2 - 2) for spec in RULES]
    tasks = [task(aggregators.build(spec), cohort, repeats) for spec in specs]
    round_, *times = (seconds / repeats for seconds in best(collecting, *tasks))
    rows = {"collecting": {"us": round(1e6 * round_, 1), "of_round": 1.0}}
    for spec, seconds in zip(specs, times, strict=True):
        rows[spec] = {"us": round(1e6 * seconds, 1), "of_round": round(seconds / round_, 3)}
    return rows


@using(KERNELS)
def main() -> None:
    result = {}
    for shape, (clients, sessions, _, _) in ROUNDS.items():
        result[shape] = measured(shape)
        for what, row in result[shape].items():
            print(
                f"{clients:4} x {sessions}  {what:55} {row['us']:>10,} us {row['of_round']:8.3f}",
                flush=True,
            )
    print(json.dumps(result))


if __name__ == "__main__":
    main()
