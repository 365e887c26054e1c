"""Rounds of PDGD with one hidden layer for a range of clients: the compiled twin of `PDGD.learn`
for `MLP`."""

import numpy as np

from foltr.kernels import kernel
from foltr.kernels.calls import never_inlined
from foltr.kernels.hidden_layer import activate, head, layer_of, products, step
from foltr.kernels.interaction import (
    NOT_FINITE,
    choose,
    interact,
    report,
    scratch_of,
    session_keys,
)
from foltr.kernels.pdgd_linear import keep_apart, keep_in_ball, pull_back, start_from, unpacked


@kernel(inner=True)
def spread(params, hidden, d, width, out):
    """[W | b | v] with the rows of W padded to `width`."""
    for h in range(hidden):
        for f in range(d):
            out[h * width + f] = params[h * d + f]
        for f in range(d, width):
            out[h * width + f] = 0
    for j in range(2 * hidden):
        out[hidden * width + j] = params[hidden * d + j]


@kernel(by_address=True)
def learn_mlp(
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
    for clients begin .. end of the round. `rewards`, `payloads` and `room` are of no
    use here.

    Returns the row whose scores were not finite, or -1."""
    never_inlined()
    X, labels, longest = data
    starts, lengths, rows, labelling, ideals = blocks
    first, last, models, sessions = people
    click, stop, gain, discount = tables
    lr, decay, depth, shown_pairs, explore, radius, mu, each_session, send, keep = unpacked(
        settings
    )
    hidden, features, activation = network
    width = X.shape[1]
    split = hidden * width
    base, w = np.empty(split + 2 * hidden, np.float32), np.empty(split + 2 * hidden, np.float32)
    spread(params, hidden, features, width, base)
    W, b, v = w[:split].reshape(hidden, width), w[split : split + hidden], w[split + hidden :]
    Z, A, bits = layer_of(longest, hidden)
    s, scratch = np.empty(longest, np.float32), scratch_of(longest, depth)
    G, ranks = np.empty((depth + 3, hidden), np.float32), np.empty(depth + 3, np.int64)
    ranking, weights, v_before = scratch[3], scratch[7], np.empty(hidden, np.float32)
    own, tally = np.empty(params.shape[0], np.float32), np.empty(2)
    for i in range(begin, end):
        c = clients[i]
        if memory.shape[1] > 0:
            start_from(params, memory, c, own)
            spread(own, hidden, features, width, base)
        for j in range(w.shape[0]):
            w[j] = base[j]
        used = w if each_session else base
        W_used, b_used = used[:split].reshape(hidden, width), used[split : split + hidden]
        v_used = used[split + hidden :]
        rate = lr * decay ** (t * sessions[c])
        tally[0] = tally[1] = 0.0
        for session in range(sessions[c]):
            user_key, rank_key = session_keys(keys, c, t, session)
            block, model = choose(user_key, first[c], last[c], models[c])
            start, n = starts[block], lengths[block]
            k = min(depth, n)
            products(X, rows, start, n, W_used, Z)
            activate(Z, n, b_used, activation, A, bits)
            head(A, n, v_used, s)
            last_click = interact(
                s,
                n,
                k,
                explore,
                shown_pairs,
                rank_key,
                user_key,
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
            for h in range(hidden):  # the gradient is taken at the weights that gave the scores
                v_before[h] = v_used[h]
            if mu > 0.0:
                pull_back(w, base, rate * mu)
            if last_click >= 0:
                step(
                    X,
                    rows,
                    start,
                    A,
                    ranking,
                    k,
                    weights,
                    rate,
                    v_before,
                    activation,
                    W,
                    b,
                    v,
                    G,
                    ranks,
                )
            if radius < np.inf and (each_session or session == sessions[c] - 1):
                keep_in_ball(w, radius)
            rate *= decay
        for h in range(hidden):
            for f in range(features):
                updates[i, h * features + f] = w[h * width + f] - base[h * width + f]
        for h in range(2 * hidden):
            updates[i, hidden * features + h] = w[split + h] - base[split + h]
        keep_apart(memory, c, send, keep, updates, i)
        report(seen, i, tally, sessions[c])
    return -1
