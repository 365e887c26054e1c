"""Rounds of PDGD with the linear ranker for a range of clients: the compiled twin of `PDGD.learn`
for `Linear`."""

import math

import numpy as np
from numba import float32

from foltr.kernels import SUMS, kernel
from foltr.kernels.calls import never_inlined
from foltr.kernels.interaction import (
    NOT_FINITE,
    choose,
    dots,
    interact,
    report,
    row_of,
    scratch_in,
    session_keys,
)


@kernel(fastmath=SUMS, inner=True)
def add_rows(X, rows, start, ranking, k, weights, rate, w):
    for j in range(k):
        if weights[j] != 0.0:
            c, row = float32(rate * weights[j]), row_of(rows, start, ranking[j])
            for f in range(w.shape[0]):
                w[f] += c * X[row, f]


@kernel(fastmath=SUMS, inner=True)
def pull_back(w, params, strength):
    """FedProx: w += strength x (params - w)."""
    for f in range(w.shape[0]):
        w[f] += float32(strength) * (params[f] - w[f])


@kernel(fastmath=SUMS, inner=True)
def keep_in_ball(w, radius):
    total = 0.0
    for f in range(w.shape[0]):
        total += np.float64(w[f]) * np.float64(w[f])
    norm = math.sqrt(total)
    if norm > radius:
        # FARTHEST_OUT of components/learners/pdgd.py
        shrink = float32(radius / norm if radius >= 1e-30 * norm else 0.0)
        for f in range(w.shape[0]):
            w[f] *= shrink


@kernel(inner=True)
def start_from(params, memory, client, start):
    """start[:d] = params plus the client's residual on the last of them: the twin of
    `Residual.personal`."""
    d, kept = params.shape[0], memory.shape[1]
    for f in range(d - kept):
        start[f] = params[f]
    for f in range(kept):
        start[d - kept + f] = params[d - kept + f] + memory[client, f]


@kernel(inner=True)
def keep_apart(memory, client, send, keep, updates, i):
    """Split the last numbers of an update between device and server: the twin of the end of
    `Residual.learn`."""
    shared = updates.shape[1] - memory.shape[1]
    for f in range(memory.shape[1]):
        own = updates[i, shared + f]
        memory[client, f] = float32(keep) * (memory[client, f] + own)
        updates[i, shared + f] = float32(send) * own


@kernel(inner=True)
def unpacked(settings):
    """The fields of PDGD and of a learner around it, as `engines.twins` packs them."""
    return (
        settings[0],  # lr
        settings[1],  # decay
        int(settings[2]),  # documents shown
        settings[3] != 0.0,  # pairs of all shown documents
        settings[4] != 0.0,  # explore
        settings[5],  # radius of the ball, or infinity
        settings[6],  # mu
        settings[7] != 0.0,  # a step after every session
        settings[8],  # share of its own part that a client sends
        settings[9],  # and that it keeps
    )


@kernel(by_address=True)
def learn_linear(
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
    updates,
    seen,
    room,
):
    """Fill updates (n, d), seen (3, n) and the clients' rows of memory (all clients, numbers kept)
    for clients begin .. end of the round; `room` is scratch (`room_of`). All learners have these
    arguments; `rewards`, `network` and `payloads` are of no use here.

    Returns the row whose scores were not finite, or -1."""
    never_inlined()
    X, labels, longest = data
    starts, lengths, rows, labelling, ideals = blocks
    first, last, models, sessions = people
    click, stop, gain, discount = tables
    lr, decay, depth, shown_pairs, explore, radius, mu, each_session, send, keep = unpacked(
        settings
    )
    width, d = X.shape[1], params.shape[0]
    base, w, s = room[0][:width], room[0][width : 2 * width], room[0][2 * width :]
    scratch = scratch_in(room, 2 * width + longest, longest, depth)
    ranking, weights, tally = scratch[3], scratch[7], room[1][room[1].shape[0] - 2 :]
    for f in range(width):
        base[f] = params[f] if f < d else float32(0)
    for i in range(begin, end):
        c = clients[i]
        if memory.shape[1] > 0:
            start_from(params, memory, c, base)
        for f in range(width):
            w[f] = base[f]
        used = w if each_session else base
        rate = lr * decay ** (t * sessions[c])
        tally[0] = tally[1] = 0.0
        for b in range(sessions[c]):
            ukey, rkey = session_keys(keys, c, t, b)
            block, model = choose(ukey, first[c], last[c], models[c])
            start, n = starts[block], lengths[block]
            k = min(depth, n)
            dots(X, rows, start, n, used, s)
            last_click = interact(
                s,
                n,
                k,
                explore,
                shown_pairs,
                rkey,
                ukey,
                labels[labelling[block]],
                rows,
                start,
                click[model],
                stop[model],
                ideals[block],
                gain,
                discount,
                scratch,
                tally,
            )
            if last_click == NOT_FINITE:
                return i
            if mu > 0.0:
                pull_back(w, base, rate * mu)
            if last_click >= 0:
                add_rows(X, rows, start, ranking, k, weights, rate, w)
            if radius < np.inf and (each_session or b == sessions[c] - 1):
                keep_in_ball(w, radius)
            rate *= decay
        for f in range(d):
            updates[i, f] = w[f] - base[f]
        keep_apart(memory, c, send, keep, updates, i)
        report(seen, i, tally, sessions[c])
    return -1
