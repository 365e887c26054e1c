"""A stretch of rounds in one call: the compiled twin of `federation.federate` for a simulation.

Learner, noise, attack and rule are kernels that it calls by their addresses (0 for none). A round
that it cannot make as the definition would (scores or messages that are not finite, a rule that
keeps no client) ends the stretch: the definition makes it."""

import math

import numpy as np
from numba import float32, uint64

from foltr.kernels import kernel
from foltr.kernels.calls import called, never_inlined
from foltr.kernels.cohorts import SAMPLE, smallest_first
from foltr.kernels.draws import below, word
from foltr.kernels.interaction import finite
from foltr.kernels.rules import DONE

PLAIN, MOMENTS = 0, 1  # steps of SGD and of Adam
LARGEST = np.float64(np.finfo(np.float32).max)  # number that a device can hold


@kernel(by_address=True)
def sample(key, n, k, scratch):
    """chosen[:k] = k of 0 .. n - 1 in ascending order: the twin of `Stream.sample`. The last array
    of `scratch` is `chosen`."""
    never_inlined()
    words, edges, chosen = scratch
    for i in range(n):
        words[i] = word(key, uint64(i))
        edges[i] = words[i]
    if k < n:
        smallest_first(edges, n, k, np.empty(SAMPLE, np.uint64))
    edge, ties, at = edges[0], k, 0
    for i in range(1, k):
        edge = max(edge, edges[i])
    for i in range(n):
        ties -= words[i] < edge
    for i in range(n):
        last = words[i] == edge and ties > 0
        ties -= last
        if words[i] < edge or last:
            chosen[at] = i
            at += 1
    return 0


@kernel(by_address=True)
def move_malicious(sample_at, key, clients, count, malicious, models, honest, model, scratch):
    """Who is malicious in a round, where they roam: malicious (clients,), and their click models
    (`model`; -1 where malicious users click as all others do)."""
    never_inlined()
    chosen = scratch[2]
    for c in range(clients):
        if malicious[c] and model >= 0:
            for j in range(models.shape[1]):
                models[c, j] = honest[c, j]
        malicious[c] = False
    called(sample_at, (key, clients, count, scratch))
    for i in range(count):
        malicious[chosen[i]] = True
        if model >= 0:
            for j in range(models.shape[1]):
                models[chosen[i], j] = model
    return 0


@kernel(inner=True)
def step(which, numbers, powers, direction, params, first_moment, second_moment):
    """The optimizer: the twins of `SGD` and `Adam`. `powers` are b1^t and b2^t. Returns whether
    devices can hold the new parameters."""
    good = True
    for f in range(params.shape[0]):
        g = direction[f]
        if which == PLAIN:
            params[f] += numbers[0] * g
        else:
            lr, b1, b2, eps = numbers[0], numbers[1], numbers[2], numbers[3]
            m, v = first_moment[f], second_moment[f]
            m = b1 * m + (1.0 - b1) * g
            v = b2 * v + (1.0 - b2) * (g * g)
            divisor = math.sqrt(v / (1.0 - powers[1])) + eps
            params[f] += lr * (m / (1.0 - powers[0])) / divisor
            first_moment[f], second_moment[f] = m, v
        good = good and abs(params[f]) <= LARGEST  # False for NaN
    return good


@kernel()
def make_rounds(addresses, given, people, who, noise, attack, rule, optimizer, state, work, seen):
    """Rounds t, t + 1, ... of `state`, as many as `seen` (rounds, 3, n) has room for. Changes all
    that `state` holds, in place. Returns how many rounds were completed. If these are fewer, the
    round after them was begun, and left its traces in `state`: the caller must repeat the
    completed rounds from a copy (`Stretch.advance`), and the definition makes the next one."""
    learn_at, noise_at, attack_at, rule_at, sample_at, move_at = addresses
    data, blocks, tables, settings, rewards, network, keys = given
    first, last, models, sessions, honest, poison = people
    pool, participation_key, is_malicious, roaming, malicious_key, count, clients_all = who
    scales, chances, noise_key = noise
    attack_parts, attack_numbers, attack_key = attack
    rule_parts, rule_numbers = rule
    which, numbers, powers = optimizer
    t, params, memory, remembered, first_moment, second_moment = state
    clients, sent, payloads, updates, direction, malicious_now, scratch, room = work
    n, flat = clients.shape[0], updates.reshape(updates.size)
    chosen = scratch[2]
    for made in range(seen.shape[0]):
        if n < pool.shape[0]:
            key = below(participation_key, uint64(t + made))
            called(sample_at, (key, pool.shape[0], n, scratch))
            for i in range(n):
                clients[i] = pool[chosen[i]]
        if roaming:
            key = below(malicious_key, uint64(t + made))
            called(
                move_at,
                (
                    sample_at,
                    key,
                    clients_all,
                    count,
                    is_malicious,
                    models,
                    honest,
                    poison,
                    scratch,
                ),
            )
        for f in range(params.shape[0]):
            sent[f] = float32(params[f])
        failed = called(
            learn_at,
            (
                data,
                blocks,
                (first, last, models, sessions),
                tables,
                settings,
                rewards,
                network,
                sent,
                keys,
                t + made,
                clients,
                0,
                n,
                memory,
                payloads,
                updates,
                seen[made],
                room,
            ),
        )
        if failed >= 0:
            return made
        if noise_at:
            called(noise_at, (scales, chances, noise_key, clients, t + made, updates))
        if attack_at:
            some = False
            for i in range(n):
                malicious_now[i] = is_malicious[clients[i]]
                some = some or malicious_now[i]
            if not finite(flat, flat.shape[0]):
                return made
            if some:
                key = below(attack_key, uint64(t + made))
                called(
                    attack_at,
                    (attack_parts, attack_numbers, key, clients, malicious_now, sent, updates),
                )
        if not finite(flat, flat.shape[0]):
            return made
        weights = seen[made, 2]
        if (
            called(
                rule_at,
                (rule_parts, rule_numbers, clients, updates, weights, remembered, direction),
            )
            != DONE
        ):
            return made
        stepped = step(
            which, numbers, powers[made], direction, params, first_moment, second_moment
        )
        if not stepped:
            return made
    return seen.shape[0]
