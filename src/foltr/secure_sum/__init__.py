"""A sum that shows the server no summand: the protocol of Bonawitz et al. (CCS 2017;
doi:10.1145/3133956.3133982) on the sparse graph of Bell et al. (CCS 2020;
doi:10.1145/3372297.3417885), as two state machines that know no transport.

Every client i adds to its words x_i (modulo 2^64) a mask of its own and one per neighbour, which
cancel in the sum:

    y_i = x_i + stream(b_i) + sum_{j in N(i), j > i} stream(s_ij) - sum_{j in N(i), j < i}
    stream(s_ij)

b_i is a random seed; s_ij = HKDF(X25519(i's mask key, j's)), which both can compute; stream is
ChaCha20's. Steps, each of which clients may fail to make:

    KEYS    -> ROSTER      each client sends two fresh public keys, signed by its node key if it
                           has one
    SHARES  -> DELIVERY    Shamir shares of b_i and of i's private mask key, sealed for each
                           neighbour
    MASKED  -> SURVIVORS   y_i
    SIGNED  -> SIGNATURES  (with `consistency`) a signature on the list of survivors
    UNMASK                 for every neighbour either its share of b (survivors) or of the mask key
                           (those who shared but never sent y): never both, and once only

Who must be trusted, for what (t is `Terms.threshold`, more than half of the n clients):

- Without `consistency`: a server that follows the steps but keeps and combines all that it sees,
  together with any t - 1 clients on the complete graph, learns the sum over the survivors and
  nothing else about the others' words. On the sparse graph: with a fifth of the clients, who were
  not chosen by looking at the graph, up to a chance of 2^-40 (`graph.py`). The sum holds at least
  t clients; colluders know their own part of it, so what is hidden is a client among the honest
  survivors.
- With `consistency`, node keys known to all and the complete graph: also a server that lies about
  who is there and who survived. Fewer than 2t - n colluding clients cannot help it to get both
  kinds of shares of one client, and all who unmask have seen t signatures on one list, so at most
  one sum is released.
- A server that sends different models to different clients (to all but one a model 10^4 times as
  large, from which nothing is learnt, so that the sum is one client's update) gets no sum over
  both: the terms name the model by its hash, and a `Client` that was sent another takes no part.
  Terms that match what each was sent are different sessions, between which shares cannot be opened
  and masks do not cancel. So all whose words are in a sum learnt from one model.
- A device also has a floor of its own: by default it takes part only where t is at least two
  thirds of the clients.
- Nobody is protected from a server that invents clients, or stands between them, where node keys
  are not known (it could give each of them a session, and a model, of its own); from one that
  sends everybody the same crafted model, or chooses which documents a client ranks; from one that
  asks the same people again for a slightly different set of survivors in another round; or from
  what the sum itself tells: that is the business of noise (`privacy/`). Participation, drop-out,
  message sizes and times are seen.
- Nothing stops a client from lying about its own words or from spoiling a round. A share that does
  not fit what its owner published is refused; a sum that cannot be unmasked exactly is withheld
  (`core.Withheld`), never released in part. Messages between client and server need a channel that
  authenticates both (TLS): masked words carry no proof of who sent them. Python cannot wipe
  memory: keys live until the objects are collected.

Security is computational: of X25519, HKDF, ChaCha20, Poly1305 and Ed25519 as in the `cryptography`
package, of SHA-256 for what terms and models are named by, and of BLAKE2b for what is published
about shares. `graph.py` and `fixed_point.py` need none of it."""
