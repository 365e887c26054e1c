"""Messages of malicious clients inside a stretch of rounds: the compiled twins of some of
`components/attacks`.

All have the same arguments: addresses of the kernels that an attack calls, its numbers, the key of
the round's draws, clients (n,), which of them are malicious (n,), the server's parameters (d,)
float32, and updates (n, d), in which they replace the rows of malicious clients. Sums are made in
the order in which NumPy makes those of the definitions: no fast-math."""

import math

import numpy as np
from numba import float32, uint64

from foltr.kernels import SUMS, kernel
from foltr.kernels.calls import called, never_inlined
from foltr.kernels.cohorts import distances
from foltr.kernels.draws import below, uniform

OWN, ALL = 0, 1  # knowledge
STD, UNIT, SIGN = 0, 1, 2  # direction
BLOCK, LANES = 128, 8  # of NumPy's pairwise sums


@kernel(inner=True)
def _block(v, start, n):
    """The sum of up to BLOCK numbers, as NumPy adds them: eight side by side, then the rest."""
    if n < LANES:
        total = 0.0
        for i in range(n):
            total += v[start + i]
        return total
    r0, r1, r2, r3 = v[start], v[start + 1], v[start + 2], v[start + 3]
    r4, r5, r6, r7 = v[start + 4], v[start + 5], v[start + 6], v[start + 7]
    i = LANES
    while i < n - n % LANES:
        r0 += v[start + i]
        r1 += v[start + i + 1]
        r2 += v[start + i + 2]
        r3 += v[start + i + 3]
        r4 += v[start + i + 4]
        r5 += v[start + i + 5]
        r6 += v[start + i + 6]
        r7 += v[start + i + 7]
        i += LANES
    total = ((r0 + r1) + (r2 + r3)) + ((r4 + r5) + (r6 + r7))
    while i < n:
        total += v[start + i]
        i += 1
    return total


@kernel()
def numpy_sum(v):
    """v.sum() of a vector of float64, bit for bit: halves are added up apart, as trees whose
    leaves are blocks."""
    starts, sizes = np.empty(64, np.int64), np.empty(64, np.int64)
    sums, depths, height, done = np.empty(64), np.empty(64, np.int64), 1, 0
    waiting = np.empty(64, np.int64)  # the depth of each part that is not added up yet
    starts[0], sizes[0], waiting[0] = 0, v.shape[0], 0
    while height:
        height -= 1
        start, n, depth = starts[height], sizes[height], waiting[height]
        if n > BLOCK:
            half = n // 2 - n // 2 % LANES
            starts[height], sizes[height], waiting[height] = start + half, n - half, depth + 1
            starts[height + 1], sizes[height + 1], waiting[height + 1] = start, half, depth + 1
            height += 2
            continue
        sums[done], depths[done] = _block(v, start, n), depth
        done += 1
        while done > 1 and depths[done - 1] == depths[done - 2]:
            sums[done - 2] += sums[done - 1]
            depths[done - 2] -= 1
            done -= 1
    return sums[0]


@kernel(inner=True)
def squared_length(v, spare):
    for f in range(v.shape[0]):
        spare[f] = np.float64(v[f]) * np.float64(v[f])
    return numpy_sum(spare)


@kernel(inner=True)
def rows_of(updates, malicious, which):
    """The updates of malicious clients, or of the others."""
    count, row = 0, 0
    for i in range(updates.shape[0]):
        count += malicious[i] == which
    rows = np.empty((count, updates.shape[1]), np.float32)
    for i in range(updates.shape[0]):
        if malicious[i] == which:
            for f in range(updates.shape[1]):
                rows[row, f] = updates[i, f]
            row += 1
    return rows


@kernel(inner=True)
def known(updates, malicious, knowledge):
    """The updates that most attackers know: of honest clients (ALL), or their own; also where
    nobody is honest."""
    if knowledge == ALL:
        honest = rows_of(updates, malicious, False)
        if honest.shape[0]:
            return honest
    return rows_of(updates, malicious, True)


@kernel(inner=True)
def mean_of(rows):
    mu = np.zeros(rows.shape[1])
    for i in range(rows.shape[0]):
        for f in range(rows.shape[1]):
            mu[f] += np.float64(rows[i, f])
    for f in range(rows.shape[1]):
        mu[f] /= rows.shape[0]
    return mu


@kernel(inner=True)
def spread_of(rows, mu):
    sigma = np.zeros(rows.shape[1])
    for i in range(rows.shape[0]):
        for f in range(rows.shape[1]):
            away = np.float64(rows[i, f]) - mu[f]
            sigma[f] += away * away
    for f in range(rows.shape[1]):
        sigma[f] = math.sqrt(sigma[f] / rows.shape[0])
    return sigma


@kernel(inner=True)
def sign(x):
    return 1.0 if x > 0.0 else (-1.0 if x < 0.0 else 0.0)


@kernel(inner=True)
def send(message, malicious, updates):
    """The same message (d,) from every malicious client."""
    for i in range(updates.shape[0]):
        if malicious[i]:
            for f in range(updates.shape[1]):
                updates[i, f] = float32(message[f])


@kernel(by_address=True)
def little_is_enough(addresses, numbers, key, clients, malicious, params, updates):
    """Numbers: knowledge, then z for 0, 1, ... malicious clients (NaN: there is no z, and updates
    stay as they are). With ALL it knows the updates of all clients."""
    never_inlined()
    rows, m = rows_of(updates, malicious, True), 0
    for i in range(malicious.shape[0]):
        m += malicious[i]
    z = numbers[1 + m]
    if math.isnan(z):
        return 0
    if numbers[0] == ALL:
        rows = updates
    mu = mean_of(rows)
    sigma = spread_of(rows, mu)
    for f in range(mu.shape[0]):
        mu[f] -= z * sigma[f]
    send(mu, malicious, updates)
    return 0


@kernel(by_address=True)
def inner_product(addresses, numbers, key, clients, malicious, params, updates):
    """Numbers: knowledge, scale."""
    never_inlined()
    mu = mean_of(known(updates, malicious, int(numbers[0])))
    for f in range(mu.shape[0]):
        mu[f] *= -numbers[1]
    send(mu, malicious, updates)
    return 0


@kernel(by_address=True)
def against_krum(addresses, numbers, key, clients, malicious, params, updates):
    """Numbers: knowledge, multi, squared, start, least. Addresses: `picked`."""
    never_inlined()
    own, found = rows_of(updates, malicious, True), np.empty(1)
    (n, d), m, multi, squared = updates.shape, own.shape[0], numbers[1] != 0.0, numbers[2] != 0.0
    if numbers[0] == ALL and n > 2 * m + 1:
        signs = mean_of(updates)
        for f in range(d):
            signs[f] = -sign(signs[f])
        rows, kept = rows_of(updates, malicious, False), n - m if multi else 1
        called(
            addresses[0], (rows, signs, m, m, n - m - 2, kept, squared, -1.0, numbers[4], found)
        )
    else:
        signs, lengths, spare, count = mean_of(own), np.empty(m), np.empty(d), 0
        for f in range(d):
            signs[f] = -sign(signs[f])
            count += signs[f] != 0.0
        for i in range(m):
            lengths[i] = math.sqrt(squared_length(own[i], spare))
        first = numbers[3] * (numpy_sum(lengths) / m) / math.sqrt(count if count else 1)
        nearest, kept = max(1, m - 2), m if multi else 1
        called(
            addresses[0],
            (own, signs, 1, nearest + 1, nearest, kept, squared, first, numbers[4], found),
        )
    for f in range(d):
        signs[f] *= found[0]
    send(signs, malicious, updates)
    return 0


@kernel(by_address=True)
def fang_trimmed(addresses, numbers, key, clients, malicious, params, updates):
    """Numbers: knowledge, b, and the standard deviations to the nearer and the farther end."""
    never_inlined()
    (n, d), own = updates.shape, rows_of(updates, malicious, True)
    near, far = np.empty(d), np.empty(d)
    if numbers[0] == OWN:
        mu = mean_of(own)
        sigma = spread_of(own, mu)
        for f in range(d):
            outwards = -sign(mu[f]) * sigma[f]
            near[f], far[f] = mu[f] + numbers[2] * outwards, mu[f] + numbers[3] * outwards
    else:
        mu, honest = mean_of(updates), known(updates, malicious, ALL)
        for f in range(d):
            theta, edge = np.float64(params[f]), honest[0, f]
            for i in range(1, honest.shape[0]):
                edge = max(edge, honest[i, f]) if mu[f] < 0.0 else min(edge, honest[i, f])
            outermost = theta + np.float64(edge)
            enlarge = (mu[f] < 0.0) == (outermost > 0.0)
            near[f] = outermost - theta
            far[f] = outermost * (numbers[1] if enlarge else 1.0 / numbers[1]) - theta
    for i in range(n):
        if malicious[i]:
            drawn = below(key, uint64(clients[i]))
            for f in range(d):
                u = uniform(drawn, uint64(f))
                sent = 0.0 if mu[f] == 0.0 else near[f] + u * (far[f] - near[f])
                updates[i, f] = float32(sent)
    return 0


@kernel(by_address=True)
def min_sum(addresses, numbers, key, clients, malicious, params, updates):
    """Numbers: knowledge, direction."""
    never_inlined()
    rows, d = known(updates, malicious, int(numbers[0])), updates.shape[1]
    mu, p, spare = mean_of(rows), np.empty(d), np.empty(d)
    if numbers[1] == STD:
        p = spread_of(rows, mu)
        for f in range(d):
            p[f] = -p[f]
    elif numbers[1] == SIGN:
        for f in range(d):
            p[f] = -sign(mu[f])
    else:
        size = max(math.sqrt(squared_length(mu, spare)), 1e-300)
        for f in range(d):
            p[f] = -mu[f] / size
    length, farthest, reach = math.sqrt(squared_length(p, spare)), 0.0, 0.0
    if length > 0.0:
        away = np.empty(d)
        for i in range(rows.shape[0]):
            for f in range(d):
                away[f] = np.float64(rows[i, f]) - mu[f]
            farthest = max(farthest, math.sqrt(squared_length(away, spare)))
        reach = farthest / length
    for f in range(d):
        mu[f] += reach * p[f]
    send(mu, malicious, updates)
    return 0


@kernel(by_address=True)
def mimic_fixed(addresses, numbers, key, clients, malicious, params, updates):
    never_inlined()
    for i in range(updates.shape[0]):
        if not malicious[i]:
            for j in range(updates.shape[0]):
                if malicious[j]:
                    for f in range(updates.shape[1]):
                        updates[j, f] = updates[i, f]
            return 0
    return 0


@kernel(by_address=True)
def compromised_model(addresses, numbers, key, clients, malicious, params, updates):
    """Numbers: z."""
    never_inlined()
    z = numbers[0]
    for i in range(updates.shape[0]):
        if malicious[i]:
            for f in range(updates.shape[1]):
                sent = -z * np.float64(updates[i, f]) - (z + 1.0) * np.float64(params[f])
                updates[i, f] = float32(sent)
    return 0


@kernel(by_address=True)
def disguised(addresses, numbers, key, clients, malicious, params, updates):
    """Numbers: share; then those of the disguised attack. Addresses: the disguised attack, then
    those of its own."""
    never_inlined()
    own = rows_of(updates, malicious, True)
    mu, row = mean_of(own), 0
    made = called(
        addresses[0], (addresses[1:], numbers[1:], key, clients, malicious, params, updates)
    )
    for i in range(updates.shape[0]):
        if malicious[i]:
            for f in range(updates.shape[1]):
                away = numbers[0] * (np.float64(own[row, f]) - mu[f])
                updates[i, f] = float32(np.float64(updates[i, f]) + away)
            row += 1
    return made


# The search for a message that Krum selects: the compiled twin of
# `components/attacks/fang.py`.


@kernel(fastmath=SUMS, inner=True)
def _products(row, signs):
    """|u|^2 and u.s."""
    square, along = 0.0, 0.0
    for j in range(row.shape[0]):
        x = np.float64(row[j])
        square += x * x
        along += x * signs[j]
    return square, along


@kernel(inner=True)
def _sums_of_nearest(updates, squared, apart, sums):
    """Sort each row's distances to others, and fill sums[i, k] with the sum of the k smallest."""
    b = updates.shape[0]
    distances(updates, squared, apart)
    for i in range(b):
        apart[i, i] = np.inf
        apart[i].sort()
        sums[i, 0] = 0.0
        for k in range(b - 1):
            sums[i, k + 1] = sums[i, k] + apart[i, k]


@kernel(inner=True)
def _is_picked(apart, sums, far, order, copies, nearest, kept):
    """Whether `copies` equal messages, at the distances `far` from the others, are among the
    `kept` lowest scores even if they lose ties."""
    b = apart.shape[0]
    for i in range(b):
        order[i] = far[i]
    order.sort()
    crafted, better = 0.0, 0
    for k in range(nearest - (copies - 1)):
        crafted += order[k]
    for i in range(b):
        closer = 0
        while closer < min(nearest, b - 1) and apart[i, closer] <= far[i]:
            closer += 1
        take = min(nearest - closer, copies)
        better += sums[i, nearest - take] + take * far[i] <= crafted
    return better <= max(0, kept - copies)


@kernel(inner=True)
def _bound(sums, squares, nearest, copies, squared, signed):
    """The lambda beyond which Krum selects no crafted message."""
    least, longest, beyond = np.inf, 0.0, nearest - (copies - 1)
    for i in range(sums.shape[0]):
        least, longest = min(least, sums[i, nearest]), max(longest, squares[i])
    radius = math.sqrt(least / beyond) if squared else least / beyond
    return (radius + math.sqrt(longest)) / math.sqrt(max(1.0, signed))


@kernel(by_address=True)
def picked(updates, signs, fewest, most, nearest, kept, squared, start, least, found):
    """Fill found (1,) with lambda, and return the copies, as in
    `foltr.components.attacks.fang.picked`."""
    never_inlined()
    b, d = updates.shape
    apart, sums = np.empty((b, b)), np.empty((b, b))
    squares, along, far, order = np.empty(b), np.empty(b), np.empty(b), np.empty(b)
    _sums_of_nearest(updates, squared, apart, sums)
    for i in range(b):
        squares[i], along[i] = _products(updates[i], signs)
    signed = 0.0  # |s|^2
    for j in range(d):
        signed += signs[j] * signs[j]
    if start < 0.0:
        start = _bound(sums, squares, nearest, fewest, squared, signed)
    scale, found[0] = start, start
    if not math.isfinite(start):
        return 0  # halving would never end
    for copies in range(fewest, most + 1):
        scale = start
        while scale >= least:
            for i in range(b):
                away = max(0.0, squares[i] - 2.0 * scale * along[i] + scale * scale * signed)
                far[i] = away if squared else math.sqrt(away)
            if _is_picked(apart, sums, far, order, copies, nearest, kept):
                found[0] = scale
                return copies
            scale *= 0.5
    found[0] = scale
    return 0
