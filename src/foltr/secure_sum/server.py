"""The server's side of a secure sum: it takes the messages of each step and answers them, then has
the sum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NoReturn

import numpy as np

from foltr.core import Array, Withheld
from foltr.core.errors import require
from foltr.secure_sum.arithmetic import SHARE, combine
from foltr.secure_sum.client import CARD, OF_KEY, OF_SEED, SEALED
from foltr.secure_sum.keys import (
    PUBLIC,
    SIGNATURE,
    KeyPair,
    commitment,
    digest,
    keys_text,
    mask_use,
    node_keys,
    signed_by,
    stream,
    survivors_text,
)
from foltr.secure_sum.messages import (
    HEADER,
    SERVER,
    Kind,
    Refused,
    exactly,
    pack,
    parts,
    unpack,
    write_set,
)
from foltr.secure_sum.terms import Terms

COMMITMENT, DIGEST = 32, 16  # bytes of the commitment to a seed, of the hash of a share
# bytes of a client's shares: first part, then per neighbour
OWN, ENTRY = (COMMITMENT + 2 * DIGEST, 2 * DIGEST + SEALED)


def longest(terms: Terms) -> int:
    """Most bytes of a message of a client, in any step."""
    shares, revealed = OWN + ENTRY * terms.degree, SHARE * (1 + terms.degree)
    return HEADER.size + max(CARD, shares, 8 * terms.words, SIGNATURE, revealed)


class SumServer:
    """The server's state machine. `take` a message of the step that is `due` from each client that
    answers in time; `close` the step, which returns a message for each client that is left; after
    UNMASK, `total`.

    A refused message changes nothing: its sender may send a correct one, or counts as dropped out.
    If too few clients are left, `close` raises Withheld, deletes everything and stays closed: no
    part of a sum is ever released."""

    def __init__(self, terms: Terms, known: Mapping[int, bytes] | None = None) -> None:
        self.terms = terms
        self._known = node_keys(known)
        everybody = set(self._known) >= set(range(terms.clients))
        require(
            everybody or not terms.consistency,
            "the consistency step needs everybody's public node key",
        )
        self.due: Kind | None = Kind.KEYS
        self.survivors: frozenset[int] = frozenset()  # clients whose words are in the sum
        self._expected = frozenset(range(terms.clients))  # clients that answered in the last step
        self._answers: dict[int, bytes] = {}  # bodies of this step
        self._taken: set[bytes] = set()  # public keys received so far
        self._cards: dict[int, bytes] = {}
        self._shares: dict[int, bytes] = {}
        # owner -> holder -> start of its entry in the owner's shares
        self._slots: dict[int, dict[int, int]] = {}
        self._sum = np.zeros(terms.words, np.uint64)
        self._revealed: dict[int, dict[int, int]] = {}  # owner -> point -> share
        self._total: Array | None = None

    def take(self, message: bytes) -> int:
        """Check one client's message and return its sender."""
        if self.due is None:
            raise Refused("this session is over")
        sender, body = unpack(self.terms, self.due, SERVER, message)
        if sender in self._answers:
            raise Refused(
                f"client {sender} has already sent {self.due.name}: sent twice, or replayed"
            )
        if sender not in self._expected:
            raise Refused(f"client {sender} dropped out before {self.due.name}")
        match self.due:
            case Kind.KEYS:
                self._check_keys(sender, body)
            case Kind.SHARES:
                exactly(body, OWN + ENTRY * len(self._around(sender, self._cards)), "shares")
            case Kind.MASKED:
                exactly(body, 8 * self.terms.words, "masked words")
                self._sum += np.frombuffer(body, "<u8")
                body = b""  # only the sum is stored
            case Kind.SIGNED:
                text = survivors_text(self.terms, self._named(self.survivors))
                if len(body) != SIGNATURE or not signed_by(self._known[sender], body, text):
                    raise Refused(
                        f"client {sender} did not sign these survivors with its node key"
                    )
            case Kind.UNMASK:
                self._check_revealed(sender, body)
        self._answers[sender] = body
        return sender

    def close(self) -> dict[int, bytes]:
        """End the step: clients that have not answered have dropped out. Returns the message for
        each client that is left."""
        if self.due is None:
            raise Withheld("this session is over")
        there, step, answers = frozenset(self._answers), self.due, self._answers
        if len(there) < self.terms.threshold:
            self._withhold(
                f"{len(there)} of {self.terms.clients} clients sent {step.name}:"
                f" {self.terms.threshold} are needed"
            )
        self._expected, self._answers = there, {}
        match step:
            case Kind.KEYS:
                return self._introduce(answers)
            case Kind.SHARES:
                return self._deliver(answers)
            case Kind.MASKED:
                return self._name_survivors(there)
            case Kind.SIGNED:
                self.due = Kind.UNMASK
                signatures = [answers[i] for i in sorted(there)]
                return {
                    i: self._send(Kind.SIGNATURES, i, self._named(there), *signatures)
                    for i in sorted(there)
                }
            case _:
                self._total = self._unmasked()
                self.due = None
                return {}

    def total(self) -> Array:
        """The sum over the survivors, modulo 2^64."""  # (words,) uint64
        if self._total is None:
            raise Withheld(
                "there is no sum: not all steps were made, or too few clients were left"
            )
        return self._total.copy()

    def _check_keys(self, sender: int, body: bytes) -> None:
        exactly(body, CARD, "keys")
        keys, signature = body[: 2 * PUBLIC], body[2 * PUBLIC :]
        if sender in self._known and not signed_by(
            self._known[sender], signature, keys_text(self.terms, sender, keys)
        ):
            raise Refused(f"the keys of client {sender} are not signed by its node key")
        for key in parts(keys, 0, PUBLIC):
            KeyPair.fresh().agree(key, b"")  # raises for keys that its neighbours could not use
            if key in self._taken or keys[:PUBLIC] == keys[PUBLIC:]:
                raise Refused(f"client {sender} sent a key that is not fresh")
        self._taken.update(parts(keys, 0, PUBLIC))

    def _introduce(self, cards: dict[int, bytes]) -> dict[int, bytes]:
        self._cards, self.due = cards, Kind.SHARES
        named = self._named(cards)
        return {
            i: self._send(Kind.ROSTER, i, named, *(cards[peer] for peer in self._around(i, cards)))
            for i in sorted(cards)
        }  # fmt: skip

    def _deliver(self, shares: dict[int, bytes]) -> dict[int, bytes]:
        self._shares, self.due = shares, Kind.MASKED
        for owner in shares:
            slots = {
                holder: OWN + ENTRY * slot
                for slot, holder in enumerate(self._around(owner, self._cards))
            }
            self._slots[owner] = {owner: COMMITMENT, **slots}
        named = self._named(shares)

        def sealed(owner: int, holder: int) -> bytes:
            start = self._slots[owner][holder] + 2 * DIGEST
            return shares[owner][start : start + SEALED]

        return {
            i: self._send(
                Kind.DELIVERY, i, named, *(sealed(peer, i) for peer in self._around(i, shares))
            )
            for i in sorted(shares)
        }

    def _name_survivors(self, there: frozenset[int]) -> dict[int, bytes]:
        if not self.terms.graph.enough(self._flags(there), self._flags(self._shares)):
            self._withhold(
                f"a client has fewer than {self.terms.quorum} survivors among its neighbours and"
                " itself"
            )
        self.survivors = there
        self.due = Kind.SIGNED if self.terms.consistency else Kind.UNMASK
        return {i: self._send(Kind.SURVIVORS, i, self._named(there)) for i in sorted(there)}

    def _check_revealed(self, sender: int, body: bytes) -> None:
        owners = sorted([sender, *self._around(sender, self._shares)])
        exactly(body, SHARE * len(owners), "revealed shares")
        for owner, share in zip(owners, parts(body, 0, SHARE), strict=True):
            which = OF_SEED if owner in self.survivors else OF_KEY
            start = self._slots[owner][sender] + DIGEST * (which == OF_KEY)
            if (
                digest(self.terms, owner, sender, which, share)
                != self._shares[owner][start : start + DIGEST]
            ):
                raise Refused(
                    f"client {sender} revealed a share that does not fit what client {owner}"
                    " published of it: one of the two tampered with it"
                )
        for owner, share in zip(owners, parts(body, 0, SHARE), strict=True):
            point = self.terms.graph.point(owner, sender)
            self._revealed.setdefault(owner, {})[point] = int.from_bytes(share, "big")

    def _unmasked(self) -> Array:
        """The sum of the masked words, minus the survivors' own masks and the masks that they
        share with drop-outs."""
        total, words, terms = self._sum.copy(), self.terms.words, self.terms
        for owner in sorted(self.survivors):
            seed = self._reconstructed(owner)
            if commitment(terms, owner, seed) != self._shares[owner][:COMMITMENT]:
                self._withhold(
                    f"the shares of client {owner} do not give the seed that it committed to"
                )
            total -= stream(seed, words)
        for owner in sorted(self._shares.keys() - self.survivors):
            pair = KeyPair.of(self._reconstructed(owner))
            if pair.public != self._cards[owner][PUBLIC : 2 * PUBLIC]:
                self._withhold(
                    f"the shares of client {owner} do not give the private key of its public one"
                )
            for peer in self.survivors.intersection(self._around(owner, self._shares)):
                key = pair.agree(
                    self._cards[peer][PUBLIC : 2 * PUBLIC], mask_use(terms, owner, peer)
                )
                mask = stream(key, words)
                if peer < owner:
                    total -= mask
                else:
                    total += mask
        return total

    def _reconstructed(self, owner: int) -> bytes:
        revealed = self._revealed.get(owner, {})
        if len(revealed) < self.terms.quorum:
            self._withhold(
                f"client {owner}: {len(revealed)} shares were revealed, {self.terms.quorum} are"
                " needed"
            )
        points = tuple(sorted(revealed)[: self.terms.quorum])
        secret = combine(points, [revealed[point] for point in points])
        return (secret % 2**256).to_bytes(32, "big")  # a wrong secret fails the check that follows

    def _send(self, kind: Kind, receiver: int, *body: bytes) -> bytes:
        return pack(self.terms, kind, SERVER, receiver, *body)

    def _named(self, clients: Iterable[int]) -> bytes:
        return write_set(self.terms, clients)

    def _flags(self, clients: Iterable[int]) -> Array:
        flags = np.zeros(self.terms.clients, bool)
        flags[list(clients)] = True
        return flags

    def _around(self, client: int, there: Mapping[int, bytes]) -> list[int]:
        return [peer for peer in self.terms.graph.neighbours(client) if peer in there]

    def _withhold(self, reason: str) -> NoReturn:
        self.due, self.survivors = None, frozenset()
        self._cards, self._shares, self._revealed, self._answers = {}, {}, {}, {}
        self._sum = np.zeros(0, np.uint64)
        raise Withheld(reason)
