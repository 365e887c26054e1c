"""Runs that nobody ran, with curves that look like learning."""

import math

from made_runs import KINDS, luck, made_run


def learning(clients, kind, seed):
    """Better with fewer clients, worse with noisier clicks, a bit of luck."""
    top = (
        0.6
        - 0.03 * math.log10(clients)
        - 0.02 * KINDS.index(kind)
        + 0.01 * luck(clients, kind, seed)
    )
    return lambda t: top - 0.35 * math.exp(-t / 12) + 0.004 * luck(seed, t)


def run_of(clients, kind, seed, **more):
    curve = learning(clients, kind, seed)
    final = {"ndcg@10": curve(40), "mrr@10": 0.5 + curve(40) / 2, "online": 30 * curve(40)}
    users = f"Cascade(kind='{kind}')"
    return made_run(
        final, clients=clients, users=users, seed=seed, rounds=40, every=2, curve=curve, **more
    )
