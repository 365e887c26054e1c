"""Secure aggregation: a sum of clients' vectors in which the server learns no summand.

It is the protocol of Bonawitz et al. (CCS 2017; doi:10.1145/3133956.3133982) on the sparse graph
of Bell et al. (CCS 2020; doi:10.1145/3372297.3417885), as two state machines without a transport.

Client i adds to its words x_i (modulo 2^64) a mask of its own and one mask per neighbour. The
masks cancel in the sum:

    y_i = x_i + stream(b_i) + sum_{j in N(i), j > i} stream(s_ij)
                            - sum_{j in N(i), j < i} stream(s_ij)

b_i is a random seed; s_ij = HKDF(X25519(i's mask key, j's)), which both can compute; stream is
ChaCha20's. A client may drop out at any of the steps:

    KEYS    -> ROSTER      each client sends two fresh public keys, signed by its node key if it
                           has one
    SHARES  -> DELIVERY    Shamir shares of b_i and of i's private mask key, sealed for each
                           neighbour
    MASKED  -> SURVIVORS   y_i
    SIGNED  -> SIGNATURES  (with `consistency`) a signature on the list of survivors
    UNMASK                 for every neighbour either its share of b (survivors) or of the mask key
                           (clients that shared keys but sent no y): never both, and only once

Guarantees and their assumptions (t is `Terms.threshold`, more than half of the n clients):

- Without `consistency`: a server that follows the steps but keeps and combines everything that
  it sees, together with any t - 1 clients on the complete graph, learns the sum over the
  survivors and nothing else about the other clients' words. On the sparse graph this holds for
  a fifth of the clients, chosen without knowledge of the graph, except with probability 2^-40
  (`terms.py`). The sum has at least t clients. Colluding clients know their own part of it, so
  a client is hidden among the honest survivors.
- With `consistency`, node keys known to all and the complete graph: also against a server that
  lies about who is there and who survived. Fewer than 2t - n colluding clients cannot help it
  to get both kinds of shares of one client. All clients that unmask have seen t signatures on
  one list, so at most one sum is released.
- A server that sends different models to different clients gets no sum over both. (It could
  send all but one client a model 10^4 times as large, from which nothing is learned, so that
  the sum is one client's update.) The terms name the model by its hash, and a `SumClient` that was
  sent another model takes no part. Different terms are different sessions, between which shares
  cannot be opened and masks do not cancel. So all clients in a sum have learned from one model.
- A device also has a minimum of its own: by default it takes part only if t is at least two
  thirds of the clients.
- Not prevented: a server that invents clients, or stands between them, where node keys are not
  known (it could give each client a session and a model of its own); a server that sends the
  same crafted model to all, or chooses which documents a client ranks; a server that asks the
  same clients again for a slightly different set of survivors in another round; and what the
  sum itself reveals, which noise must limit (`privacy/`). Participation, drop-outs, message
  sizes and times are visible.
- A client can send wrong words or spoil a round. A share that does not match what its owner
  published is refused. A sum that cannot be unmasked exactly is withheld (`core.Withheld`),
  never released in part. Messages need a channel that authenticates both sides (TLS): masked
  words carry no proof of their sender. Python cannot wipe memory: keys live until the objects
  are collected.

Security is computational: it rests on X25519, HKDF, ChaCha20, Poly1305 and Ed25519 as in the
`cryptography` package, on SHA-256 for the names of terms and models, and on BLAKE2b for
commitments to shares. `terms.py` and `arithmetic.py` need none of them."""
