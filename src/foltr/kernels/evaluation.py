"""Scores and measures of whole collections: the compiled twin of `metrics.measure_queries`."""

import numpy as np
from numba import uint64

from foltr.kernels import kernel
from foltr.kernels.calls import called, never_inlined
from foltr.kernels.draws import below, word
from foltr.kernels.hidden_layer import activate, head, products
from foltr.kernels.interaction import best_first, dots, finite
from foltr.kernels.pdgd_mlp import spread

CHUNK = 256  # documents whose hidden layer is computed at a time


@kernel(by_address=True)
def score_linear(parts, X, first, last, network, params, scores):
    """scores[first:last] of these documents. `parts` and `network` are of no use here."""
    never_inlined()
    w = np.zeros(X.shape[1], np.float32)
    for f in range(params.shape[0]):
        w[f] = params[f]
    dots(X, np.empty(0, np.int32), first, last - first, w, scores[first:])
    return 0


@kernel(by_address=True)
def hidden_into(X, first, last, network, params, A, place):
    """The hidden layer of documents first .. last, in A[place:] (documents, hidden units)."""
    never_inlined()
    hidden, features, activation = network
    width = X.shape[1]
    split = hidden * width
    w = np.empty(split + 2 * hidden, np.float32)
    spread(params, hidden, features, width, w)
    Z, bits = np.empty((CHUNK, hidden), np.float32), np.empty(CHUNK * hidden, np.int32)
    every = np.empty(0, np.int32)
    for start in range(first, last, CHUNK):
        n, filled = min(CHUNK, last - start), A[place + start - first :]
        products(X, every, start, n, w[:split].reshape(hidden, width), Z)
        activate(Z, n, w[split : split + hidden], activation, filled, bits)
    return 0


@kernel(by_address=True)
def head_into(A, first, last, params, scores, place):
    """scores[place:] of the documents whose hidden layer is A[first:last]; the output layer is the
    last of params."""
    never_inlined()
    v = params[params.shape[0] - A.shape[1] :]
    head(A[first:], last - first, v, scores[place:])
    return 0


@kernel(by_address=True)
def score_mlp(parts, X, first, last, network, params, scores):
    """scores[first:last] of these documents. `parts` are the addresses of `hidden_into` and
    `head_into`."""
    never_inlined()
    A = np.empty((CHUNK, network[0]), np.float32)
    for start in range(first, last, CHUNK):
        end = min(start + CHUNK, last)
        called(parts[0], (X, start, end, network, params, A, 0))
        called(parts[1], (A, 0, end - start, params, scores, start))
    return 0


@kernel()
def measure(scores, labels, offsets, first, last, ideals, click, gain, discount, key, out):
    """Fill out[first:last] (q, 3) with nDCG, reciprocal rank and expected MaxRR."""
    depth = discount.shape[0]
    ranking = np.empty(depth, np.int64)
    for q in range(first, last):
        start, n = offsets[q], offsets[q + 1] - offsets[q]
        k = min(depth, n)
        best_first(scores[start:], n, k, below(key, uint64(q)), ranking)
        dcg, rr, expected, unclicked = 0.0, 0.0, 0.0, 1.0
        for j in range(k):
            grade = labels[start + ranking[j]]
            dcg += gain[grade] * discount[j]
            if rr == 0.0 and grade > 0:
                rr = 1.0 / (j + 1)
            expected += unclicked * click[j, grade] / (j + 1)
            unclicked *= 1.0 - click[j, grade]
        relevant = ideals[q] > 0.0
        out[q, 0] = dcg / ideals[q] if relevant else np.nan
        out[q, 1] = rr if relevant else np.nan
        out[q, 2] = expected


@kernel()
def ranked(scores, offsets, first, last, key, out):
    """Fill out[first:last] (q, depth) with the documents of each list, best first: their places in
    the list, -1 after the last one."""
    depth = out.shape[1]
    ranking = np.empty(depth, np.int64)
    for q in range(first, last):
        start, n = offsets[q], offsets[q + 1] - offsets[q]
        k = min(depth, n)
        best_first(scores[start:], n, k, below(key, uint64(q)), ranking)
        for j in range(depth):
            out[q, j] = ranking[j] if j < k else -1


@kernel(inner=True)
def rank_of(s, n, i, key):
    """How many of s[:n] stand before document i in `best_first`."""
    x, above, equal = s[i], np.int32(0), np.int32(0)
    for j in range(n):
        above += np.int32(s[j] > x)
        equal += np.int32(s[j] == x)
    if equal > 1:  # ties go to the lower random word
        own = word(key, uint64(i))
        for j in range(n):
            above += np.int32(s[j] == x and word(key, uint64(j)) < own)
    return above


@kernel(inner=True)
def ndcg_of_list(s, n, key, relevant, block, discount, ideal, slots):
    """nDCG of a list ranked best first. Only relevant documents add to it: each is put in the slot
    of its rank, so that gains are added up in the order of the list."""
    begins, places, gained = relevant
    for j in range(slots.shape[0]):
        slots[j] = 0.0
    for r in range(begins[block], begins[block + 1]):
        rank = rank_of(s, n, places[r], key)
        if rank < slots.shape[0]:
            slots[rank] = gained[r]
    dcg = 0.0
    for j in range(slots.shape[0]):
        dcg += slots[j] * discount[j]
    return dcg / ideal


@kernel()
def ndcg_of_rankers(
    how, X, A, network, rankers, begin, end, blocks, held, relevant, discount, key, out
):
    """Fill out with the nDCG of each ranker of begin .. end (n, d) on each of its lists.

    `held`: ranker i has lists[first[i]:last[i]], which are blocks; their values are written to
    out[place[i]:]; `numbers` are their places in the stream that breaks ties. A, if not empty, is
    the hidden layer of all documents, which all rankers share.

    Returns the first ranker whose scores are not finite, or -1."""
    score_at, parts = how
    starts, lengths, rows, ideals = blocks
    first, last, lists, numbers, place = held
    shared, longest, scores = A.shape[0] > 0, 0, np.empty(X.shape[0], np.float32)
    for b in range(lengths.shape[0]):
        longest = max(longest, lengths[b])
    slots, gathered = np.empty(discount.shape[0]), np.empty((longest, X.shape[1]), np.float32)
    layer = np.empty((longest, A.shape[1]), np.float32)
    for r in range(begin, end):
        params, at = rankers[r], first[r]
        while at < last[r]:
            start, n, after = starts[lists[at]], lengths[lists[at]], at + 1
            offset = max(start, 0)
            if start >= 0:  # documents of lists that follow each other are scored together
                while after < last[r] and starts[lists[after]] == start + n:
                    n += lengths[lists[after]]
                    after += 1
                if shared:
                    called(parts[1], (A, start, start + n, params, scores, start))
                else:
                    called(score_at, (parts, X, start, start + n, network, params, scores))
            elif shared:
                for i in range(n):
                    for h in range(A.shape[1]):
                        layer[i, h] = A[rows[~start + i], h]
                called(parts[1], (layer, 0, n, params, scores, 0))
            else:
                for i in range(n):
                    for f in range(X.shape[1]):
                        gathered[i, f] = X[rows[~start + i], f]
                called(score_at, (parts, gathered, 0, n, network, params, scores))
            if not finite(scores[offset:], n):
                return r
            for i in range(at, after):
                b, tie = lists[i], below(key, uint64(numbers[i]))
                here = place[r] + i - first[r]
                out[here] = ndcg_of_list(
                    scores[offset:], lengths[b], tie, relevant, b, discount, ideals[b], slots
                )
                offset += lengths[b]
            at = after
    return -1
