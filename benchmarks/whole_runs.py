"""What does a researcher wait for? Whole runs on the shape of MQ2007, with evaluations: a
cell of the grid of chapter 5 of the thesis (10,000 rounds x 10 clients x 5 sessions, Krum and an
attack of 3 clients), and small rounds with Mean, Krum and Gated.

Run: python benchmarks/whole_runs.py
Prints CPU seconds after compilation. Ends with one line of JSON. With PYTHONPATH set to the `src`
of another checkout it measures that version.
"""

import json
import time
from dataclasses import replace

from foltr import Experiment

RUN = Experiment(
    data="Synthetic(shape='MQ2007', queries=1000)",
    users="Cascade(kind='navigational')",
    clients=10,
    rounds=10_000,
    evaluate_every=1000,
    learner="PDGD(lr=0.1, sessions=5)",
)
ATTACKED = replace(RUN, aggregator="Krum(malicious=3)", malicious=3, attack="LittleIsEnough()")
CELLS = {
    f"Krum, {attack}": replace(ATTACKED, attack=attack)
    for attack in ("LittleIsEnough()", "FangKrum()", "FangKrum(knowledge='all')")
}
# clients, sessions, rounds
SMALL = (1, 1, 100_000), (4, 5, 10_000), (10, 5, 10_000), (100, 4, 1000)
for clients, sessions, rounds in SMALL:
    small = replace(RUN, clients=clients, rounds=rounds, learner=f"PDGD(sessions={sessions})")
    rules = ("Mean()", f"Krum(malicious={clients // 5})", "Gated()")
    for rule in rules if clients > 1 else rules[:1]:
        CELLS[f"{clients} x {sessions} x {rounds}, {rule}"] = replace(small, aggregator=rule)


def main() -> None:
    seconds = {}
    for name, run in CELLS.items():
        replace(run, rounds=20).run()  # compiles
        times = []
        for _ in range(3):
            before = time.process_time()
            run.run()
            times.append(time.process_time() - before)
        seconds[name] = round(min(times), 2)
        print(f"{name:40} {seconds[name]:6.2f} s", flush=True)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
