"""What does an attack cost in a round? Every registered one, with each kind of knowledge that it
can have.

Run: python benchmarks/attacks.py [REPETITIONS] Prints CPU microseconds of one call of `craft` (the
least of five times as many calls as asked for): 4 malicious of 10 clients x 46 parameters, and 10
of 1000 x 136. Ends with one line of JSON."""

import json
import sys
import time
from dataclasses import replace
from typing import get_args, get_type_hints

import numpy as np

from foltr.core import Cohort
from foltr.core.seeds import stream
from foltr.core.spec import attacks, brief

NEEDS = {"Tailored": {"rule": "Mean()"}}
# clients, malicious, parameters, by how much fewer calls
SIZES = ((10, 4, 46, 1), (1000, 10, 136, 50))


def microseconds(attack, n: int, m: int, d: int, calls: int) -> float:
    updates = (0.03 * stream(1, "benchmark").normals(n * d).reshape(n, d) + 0.01).astype(
        np.float32
    )
    given = (
        Cohort(np.arange(n), updates, np.full(n, 5.0)),
        np.arange(n) < m,
        np.ones(d, np.float32),
        stream(2, "round"),
    )
    attack.craft(*given)
    spent = []
    for _ in range(5):
        begun = time.process_time()
        for _ in range(calls):
            attack.craft(*given)
        spent.append((time.process_time() - begun) / calls)
    return 1e6 * min(spent)


def main() -> None:
    calls, figures = int(sys.argv[1]) if len(sys.argv) > 1 else 200, {}
    for name, cls in attacks.members().items():
        thing = cls(**NEEDS.get(name, {}))
        known = get_args(get_type_hints(cls).get("knowledge"))
        for attack in [replace(thing, knowledge=each) for each in known] or [thing]:
            costs = [
                microseconds(attack, n, m, d, max(1, calls // fewer)) for n, m, d, fewer in SIZES
            ]
            figures[brief(attack)] = [round(cost, 1) for cost in costs]
            print(f"{brief(attack):40}" + "".join(f"{cost:12,.1f} us" for cost in costs))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
