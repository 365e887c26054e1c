"""Rounds of PDGD with one hidden layer, for a run of clients: the compiled twin of `PDGD.learn` over `MLP`."""

import numpy as np

from foltr.kernels import kernel
from foltr.kernels.hidden_layer import activate, head, layer_of, products, step
from foltr.kernels.interaction import NOT_FINITE, choose, interact, scratch_of, session_keys
from foltr.kernels.pdgd_linear import keep_in_ball, pull_back


@kernel()
def spread(params, hidden, d, width, out):
    """[W | b | v] with rows of W filled up to `width`."""
    out[:] = 0
    for h in range(hidden):
        out[h * width : h * width + d] = params[h * d : (h + 1) * d]
    out[hidden * width :] = params[hidden * d :]


@kernel()
def learn_mlp(data, blocks, people, tables, settings, network, params, keys, t, clients, updates, observed):
    """Fills updates (n, d) and observed (n, 2: sums of nDCG and MaxRR); returns the row that failed, or -1."""
    X, labels, longest = data
    starts, stops, labelling, ideals = blocks
    first, last, models, sessions = people
    click, stop, gain, discount = tables
    lr, decay, depth, shown_pairs, explore, radius, mu, each_session = settings
    hidden, features, activation = network
    width = X.shape[1]
    split = hidden * width
    base, w = np.empty(split + 2 * hidden, np.float32), np.empty(split + 2 * hidden, np.float32)
    spread(params, hidden, features, width, base)
    W, b, v = w[:split].reshape(hidden, width), w[split : split + hidden], w[split + hidden :]
    Z, A, bits = layer_of(longest, hidden)
    s, scratch = np.empty(longest, np.float32), scratch_of(longest, depth)
    G, rows = np.empty((depth + 3, hidden), np.float32), np.empty(depth + 3, np.int64)
    ranking, weights, v_before = scratch[3], scratch[7], np.empty(hidden, np.float32)
    for i in range(clients.shape[0]):
        c = clients[i]
        w[:] = base
        used = w if each_session else base
        W_used, b_used = used[:split].reshape(hidden, width), used[split : split + hidden]
        v_used = used[split + hidden :]
        rate = lr * decay ** (t * sessions[c])
        observed[i, :] = 0.0
        for session in range(sessions[c]):
            user_key, rank_key = session_keys(keys, c, t, session)
            block, model = choose(user_key, first[c], last[c], models[c])
            start, n = starts[block], stops[block] - starts[block]
            k = min(depth, n)
            products(X, start, n, W_used, Z)
            activate(Z, n, b_used, activation, A, bits)
            head(A, n, v_used, s)
            end = interact(s, n, k, explore, shown_pairs, rank_key, user_key, labels[labelling[block]], start,
                           click[model], stop[model], ideals[block], gain, discount, scratch, observed[i])  # fmt: skip
            if end == NOT_FINITE:
                return i
            v_before[:] = v_used  # the gradient is that of the weights that made the scores
            if mu > 0.0:
                pull_back(w, base, rate * mu)
            if end >= 0:
                step(X, start, A, ranking, k, weights, rate, v_before, activation, W, b, v, G, rows)
            if radius < np.inf and (each_session or session == sessions[c] - 1):
                keep_in_ball(w, radius)
            rate *= decay
        for h in range(hidden):
            for f in range(features):
                updates[i, h * features + f] = w[h * width + f] - base[h * width + f]
        for h in range(2 * hidden):
            updates[i, hidden * features + h] = w[split + h] - base[split + h]
    return -1
