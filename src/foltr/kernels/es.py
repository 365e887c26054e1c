"""Rounds of FOLtR-ES for a range of clients: the compiled twin of `ES.learn` for `Linear` and
`MLP`.

It also computes the direction of each message, which the server could recompute from the seed with
the same bits."""

import numpy as np
from numba import float32, uint64

from foltr.kernels import kernel
from foltr.kernels.calls import never_inlined
from foltr.kernels.draws import (  # fmt: skip
    WORDS,
    below,
    reseed,
    twister_integer,
    twister_normals,
    twister_scan,
    uniform,
    word,
)
from foltr.kernels.gaussians import gaussians
from foltr.kernels.hidden_layer import activate, head, layer_of, products
from foltr.kernels.interaction import (
    best_first,
    choose,
    dots,
    finite,
    judge,
    reciprocal_rank,
    report,
    scan,
    session_keys,
)

# what a reward depends on: the rank of a click, the number, or the set of clicks
FIRST, LAST, COUNT, WHICH = (0, 1, 2, 3)
_LAST_ADDRESS = np.uint64(0xFFFFFFFFFFFFFFFF)  # -1


@kernel(inner=True)
def code_of(clicked, k, looks_at):
    code = 0
    for j in range(k):
        if clicked[j]:
            if looks_at == WHICH:
                code |= 1 << j
            elif looks_at == COUNT:
                code += 1
            elif looks_at == LAST or code == 0:
                code = j + 1
    return code


@kernel(inner=True)
def sent_value(which, values, p, key):
    """Randomised response: the twin of `RandomizedReward.on_reward`."""
    if p >= 1.0 or uniform(key, uint64(0)) < p:
        return which
    other = int(uniform(key, uint64(1)) * (values - 1))
    return other + 1 if other >= which else other


@kernel(inner=True)
def perturb(params, step, sign, network, width, w):
    """w = params + sign x step, in the layout of the scoring loops."""
    hidden, features, _ = network
    rows = max(hidden, 1)
    for j in range(w.shape[0]):
        w[j] = float32(0)
    for h in range(rows):
        for f in range(features):
            w[h * width + f] = params[h * features + f] + sign * step[h * features + f]
    for j in range(2 * hidden):
        w[hidden * width + j] = params[hidden * features + j] + sign * step[hidden * features + j]


@kernel(by_address=True)
def learn_es(
    data,
    blocks,
    people,
    tables,
    settings,
    rewards,
    network,
    params,
    keys,
    t,
    clients,
    begin,
    end,
    memory,
    payloads,
    directions,
    seen,
    room,
):
    """Fill payloads (n, 2 or 3), directions (n, d) and seen (3, n) for clients begin .. end of the
    round.

    Returns the row whose scores were not finite, or -1. A linear ranker is a network without a
    hidden layer. Nothing is kept in `memory`; `room` is of no use here."""
    never_inlined()
    X, labels, longest = data
    starts, lengths, rows, labelling, ideals = blocks
    first, last, models, sessions = people
    click, stop, gain, discount = tables
    sigma, p, depth, looks_at = settings[0], settings[1], int(settings[2]), int(settings[3])
    antithetic, shared, origin = settings[4] != 0.0, settings[5] != 0.0, keys[3]
    values, lookup = rewards
    hidden, _, activation = network
    width, d = X.shape[1], params.shape[0]
    split = hidden * width
    w = np.empty(max(hidden, 1) * width + 2 * hidden, np.float32)
    Z, A, bits = layer_of(longest, max(hidden, 1))
    s, step, v = np.empty(longest, np.float32), np.empty(d, np.float32), np.empty(d, np.float32)
    u, r = np.empty(d), np.empty(d)
    ranking, grades, clicked = (
        np.empty(depth, np.int64),
        np.empty(depth, np.int64),
        np.empty(depth, np.bool_),
    )
    state, place = np.empty(WORDS, np.uint32), np.empty(1, np.int64)
    sums, words, tally = np.empty(2), np.empty(2, np.float32), np.empty(2)
    for i in range(begin, end):
        c = clients[i]
        own = below(below(keys[1], uint64(c)), uint64(t))
        seed = word(below(own, _LAST_ADDRESS), uint64(0)) >> uint64(32)
        if shared:
            reseed(seed, state, place)
            twister_normals(state, place, d, v)
            reseed(seed, state, place)
        else:
            gaussians(below(origin, seed), d, u, r, v)
        for f in range(d):
            step[f] = float32(sigma) * v[f]
        half = sessions[c] // 2 if antithetic else sessions[c]
        tally[0] = tally[1] = sums[0] = sums[1] = 0.0
        for session in range(sessions[c]):
            side = 1 if session >= half else 0
            if session == 0 or session == half:
                perturb(params, step, float32(1 - 2 * side), network, width, w)
            user_key, rank_key = session_keys(keys, c, t, session)
            if shared:
                block = first[c] + twister_integer(state, place, last[c] - first[c])
                model = models[c, twister_integer(state, place, models.shape[1])]
            else:
                block, model = choose(user_key, first[c], last[c], models[c])
            start, n = starts[block], lengths[block]
            k = min(depth, n)
            if hidden == 0:
                dots(X, rows, start, n, w, s)
            else:
                products(X, rows, start, n, w[:split].reshape(hidden, width), Z)
                activate(Z, n, w[split : split + hidden], activation, A, bits)
                head(A, n, w[split + hidden :], s)
            if not finite(s, n):
                return i
            best_first(s, n, k, rank_key, ranking)
            judge(
                ranking,
                k,
                labels[labelling[block]],
                rows,
                start,
                ideals[block],
                gain,
                discount,
                grades,
                tally,
            )
            if shared:
                twister_scan(grades, k, click[model], stop[model], state, place, clicked)
            else:
                scan(grades, k, click[model], stop[model], user_key, clicked)
            tally[1] += reciprocal_rank(clicked, min(k, discount.shape[0]))
            noise = below(below(below(keys[2], uint64(c)), uint64(t)), uint64(session))
            sums[side] += values[
                sent_value(lookup[code_of(clicked, k, looks_at)], values.shape[0], p, noise)
            ]
        words[0], words[1] = sums[0] / half, sums[1] / half
        payloads[i, 0] = seed
        for j in range(payloads.shape[1] - 1):
            payloads[i, 1 + j] = words.view(np.uint32)[j]
        liked = words[0] - words[1] if antithetic else words[0]
        scale = liked / float32((2.0 if antithetic else 1.0) * sigma)
        for f in range(d):
            directions[i, f] = v[f] * scale
        report(seen, i, tally, sessions[c])
    return -1
