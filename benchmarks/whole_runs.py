"""What does a researcher wait for? One whole run of 10,000 rounds x 10 clients x 5 sessions on the
shape of MQ2007, with Krum and an attack of 3 clients.

Run: python benchmarks/whole_runs.py
Prints CPU seconds after compilation, evaluations included. Ends with one line of JSON.
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
    aggregator="Krum(malicious=3)",
    malicious=3,
    attack="LittleIsEnough()",
)


def main() -> None:
    seconds = {}
    for attack in ("LittleIsEnough()", "FangKrum()", "FangKrum(knowledge='all')"):
        run = replace(RUN, attack=attack)
        replace(run, rounds=20).run()  # compiles
        before = time.process_time()
        run.run()
        seconds[attack] = round(time.process_time() - before, 2)
        print(f"Krum, {attack:28} {seconds[attack]:6.2f} s", flush=True)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
