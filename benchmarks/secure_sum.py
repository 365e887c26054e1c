"""What does a secure sum cost? The whole protocol, every client and the server in one process, a
tenth dropping out.

Run: python benchmarks/secure_sum.py [REPETITIONS] Prints CPU seconds (the least of the
repetitions) for 100 and 400 clients x 136 features, and the milliseconds of the same sum without
masks. Ends with one line of JSON."""

import json
import sys
import time

import numpy as np

from foltr.components.channels.secure_sum import SecureSum
from foltr.core import Cohort
from foltr.core.seeds import stream
from foltr.secure_sum.in_process import secure_sum
from foltr.secure_sum.messages import Kind
from foltr.secure_sum.terms import Terms

FEATURES = 136
MODEL = np.zeros(FEATURES, np.float32)  # what every client was sent
STEPS = (Kind.SHARES, Kind.MASKED, Kind.UNMASK)


def protocol(clients: int) -> float:
    """CPU seconds of one sum in which a tenth of the clients leave, at three different steps."""
    terms = Terms.of(clients, 1 + FEATURES, SecureSum().fewest(clients), MODEL)
    draws = stream(1, "benchmark", clients)
    words = {i: draws.words(1 + FEATURES) >> np.uint64(8) for i in range(clients)}
    leaving = {
        int(i): STEPS[place % 3] for place, i in enumerate(draws.sample(clients, clients // 10))
    }
    begun = time.process_time()
    server = secure_sum(terms, words, MODEL, leaving)
    spent = time.process_time() - begun
    expected = sum((words[i] for i in server.survivors), np.zeros(1 + FEATURES, np.uint64))
    assert (server.total() == expected).all()
    return spent


def plain(clients: int, features: int, repetitions: int) -> float:
    """CPU milliseconds of the same sum without masks."""
    updates = (
        stream(1, "benchmark")
        .uniforms(clients * features)
        .astype(np.float32)
        .reshape(clients, features)
    )
    cohort, spent = Cohort(np.arange(clients), updates, np.full(clients, 4.0)), []
    for _ in range(repetitions):
        begun = time.process_time()
        SecureSum().carry(cohort, clients, stream(1, "channel"))
        spent.append(time.process_time() - begun)
    return 1000 * min(spent)


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    seconds: dict[int, float] = {}
    for _ in range(repetitions):  # in turn, so that a busy moment does not hit one size only
        for clients in (100, 400):
            seconds[clients] = min(protocol(clients), seconds.get(clients, float("inf")))
    for clients, spent in seconds.items():
        degree = Terms.of(clients, 1, SecureSum().fewest(clients), MODEL).degree
        print(
            f"{clients} clients x {FEATURES} features, {degree} neighbours each: {spent:.2f} s CPU"
            " in all"
        )
    print(f"400 clients cost {seconds[400] / seconds[100]:.1f} x as much as 100")
    without = {
        f"{n} x {p}": round(plain(n, p, r), 2)
        for n, p, r in ((1000, FEATURES, 100), (1_000_000, 46, 2))
    }
    for shape, spent in without.items():
        print(f"{shape} without masks: {spent} ms CPU")
    told = {str(clients): round(spent, 2) for clients, spent in seconds.items()}
    print(
        json.dumps(
            {
                "cpu_seconds": told,
                "ratio": round(seconds[400] / seconds[100], 2),
                "plain_ms": without,
            }
        )
    )


if __name__ == "__main__":
    main()
