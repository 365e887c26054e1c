"""The client's side of a secure sum: one method per step, from the server's message to the
answer."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from foltr.core import Array, Withheld
from foltr.core.errors import require
from foltr.secure_sum.arithmetic import PRIME, SHARE, split
from foltr.secure_sum.keys import (
    PUBLIC,
    SIGNATURE,
    TAG,
    KeyPair,
    commitment,
    digest,
    keys_text,
    mask_use,
    node_keys,
    seal,
    seal_use,
    sign,
    signed_by,
    stream,
    survivors_text,
    unseal,
)
from foltr.secure_sum.messages import (
    SERVER,
    Kind,
    Refused,
    exactly,
    pack,
    parts,
    read_set,
    unpack,
    write_set,
)
from foltr.secure_sum.terms import LEAST, SMALLEST, Terms, model_digest

SEALED = 2 * SHARE + TAG
CARD = 2 * PUBLIC + SIGNATURE  # two public keys and a signature, all zeros without a node key
OF_SEED, OF_KEY = b"b", b"s"  # names of the two shared secrets


class SumClient:
    """A client's state machine: it makes each step once, in order. A refused message changes
    nothing, so the right one may still follow.

    `node_key` (Ed25519, private) signs. `known` holds the public node keys of others, whose
    signatures are then required. Withheld is raised if too few clients are left for this one to
    continue."""

    def __init__(
        self, terms: Terms, index: int, model: Array, node_key: bytes | None = None,
        known: Mapping[int, bytes] | None = None, least: float | None = LEAST,
        smallest: int = SMALLEST,
    ) -> None:  # fmt: skip
        """`model`: the parameters (d,) float32 that this device was sent and has learned from;
        raises if the terms name another model. `least` and `smallest`: the share and the number of
        clients that must be in a sum; least=None accepts any terms, even those that protect
        nobody."""
        require(
            0 <= index < terms.clients,
            f"client {index} is not among the {terms.clients} of this session",
        )
        if least is not None:
            terms.check(least, smallest)
        sent, named = model_digest(model), terms.model
        other = (
            f"client {index} was sent the model {sent.hex()[:16]}..., and the terms name"
            f" {named.hex()[:16]}..."
        )
        danger = (
            "who sends clients different models can open their sum: learn from the terms' model,"
            " or take no part"
        )
        require(sent == named, f"{other}; {danger}")
        self.terms, self.index = terms, index
        require(
            node_key is None or len(node_key) == PUBLIC,
            "a node key is an Ed25519 private key of 32 bytes",
        )
        if known and not terms.consistency:  # no other signatures are looked at
            known = {i: known[i] for i in terms.graph.neighbours(index) if i in known}
        self._node_key, self._known = node_key, node_keys(known)
        require(
            not terms.consistency
            or (node_key is not None and set(self._known) >= set(range(terms.clients))),
            "the consistency step needs a node key, and everybody's public one",
        )
        self._sealing, self._masking = KeyPair.fresh(), KeyPair.fresh()
        self._seed = secrets.token_bytes(32)
        self._due: Kind | None = Kind.KEYS
        self._peers: dict[int, bytes] = {}  # neighbours that sent keys -> their public mask keys
        # neighbours -> the key that seals shares between the two
        self._channels: dict[int, bytes] = {}
        self._held: dict[int, tuple[bytes, bytes]] = {}  # owner -> its shares of seed and mask key
        self._survivors: frozenset[int] = frozenset()

    @property
    def over(self) -> bool:
        """Whether the last step is made."""
        return self._due is None

    def to_state(self) -> dict[str, Any]:
        """All that this client must know to go on in another process, as values of JSON. It holds
        the client's secrets: whoever has it and the server's messages can read the update. The
        node key is not in it."""
        pairs = () if self.over else (self._sealing, self._masking)
        return {
            "index": self.index,
            "due": None if self._due is None else int(self._due),
            "secrets": [pair.private.private_bytes_raw().hex() for pair in pairs],
            "seed": self._seed.hex(),
            "peers": {peer: key.hex() for peer, key in self._peers.items()},
            "channels": {peer: key.hex() for peer, key in self._channels.items()},
            "held": {owner: [b.hex(), s.hex()] for owner, (b, s) in self._held.items()},
            "survivors": sorted(self._survivors),
        }

    @classmethod
    def from_state(
        cls,
        terms: Terms,
        state: Mapping[str, Any],
        node_key: bytes | None = None,
        known: Mapping[int, bytes] | None = None,
    ) -> Self:
        """The client that gave this state. Each state is to be used once: a client that goes on
        twice from one state can be asked to reveal what it must not."""
        self = cls.__new__(cls)
        self.terms, self.index = terms, int(state["index"])
        self._node_key, self._known = node_key, node_keys(known)
        self._due = None if state["due"] is None else Kind(state["due"])
        if self._due is not None:
            pairs = [KeyPair.of(bytes.fromhex(secret)) for secret in state["secrets"]]
            self._sealing, self._masking = pairs
        self._seed = bytes.fromhex(state["seed"])
        self._peers = {int(peer): bytes.fromhex(key) for peer, key in state["peers"].items()}
        self._channels = {int(peer): bytes.fromhex(key) for peer, key in state["channels"].items()}
        self._held = {
            int(owner): (bytes.fromhex(b), bytes.fromhex(s))
            for owner, (b, s) in state["held"].items()
        }
        self._survivors = frozenset(state["survivors"])
        return self

    def answer(self, step: Kind, message: bytes, words: Array | None) -> bytes:
        """The message of a step, from that of the server. `words` are those to mask."""
        match step:
            case Kind.KEYS:
                return self.advertise()
            case Kind.SHARES:
                return self.share(message)
            case Kind.MASKED:
                assert words is not None
                return self.mask(message, words)
            case Kind.SIGNED:
                return self.agree(message)
            case _:
                return self.unmask(message)

    def advertise(self) -> bytes:
        self._is_due(Kind.KEYS)
        keys = self._sealing.public + self._masking.public
        signature = bytes(SIGNATURE)
        if self._node_key is not None:
            signature = sign(self._node_key, keys_text(self.terms, self.index, keys))
        self._due = Kind.SHARES
        return self._send(Kind.KEYS, keys, signature)

    def share(self, roster: bytes) -> bytes:
        """Shares of both secrets, sealed for every neighbour that sent keys."""
        present, body = read_set(self.terms, self._read(Kind.SHARES, Kind.ROSTER, roster))
        cards = self._among(present, body, CARD, "the roster")
        peers, channels = {}, {}
        own, seen = (
            self._sealing.public + self._masking.public,
            {self._sealing.public, self._masking.public},
        )
        for peer, card in cards.items():
            keys = self._checked(peer, card)
            sealing, masking = keys[:PUBLIC], keys[PUBLIC:]
            if sealing == masking or {sealing, masking} & seen:
                raise Refused(
                    f"client {peer} has a key that somebody else has: keys are fresh, so one was"
                    " copied"
                )
            seen |= {sealing, masking}
            peers[peer] = masking
            channels[peer] = self._sealing.agree(
                sealing, seal_use(self.terms, {self.index: own, peer: keys})
            )
        holders = [self.index, *peers]
        points = [self.terms.graph.point(self.index, holder) for holder in holders]
        of_seed, of_key = (
            [
                share.to_bytes(SHARE, "big")
                for share in split(int.from_bytes(secret, "big"), self.terms.quorum, points)
            ]
            for secret in (self._seed, self._masking.private.private_bytes_raw())
        )
        entries = [commitment(self.terms, self.index, self._seed)]
        for holder, b, s in zip(holders, of_seed, of_key, strict=True):
            entries.append(digest(self.terms, self.index, holder, OF_SEED, b))
            entries.append(digest(self.terms, self.index, holder, OF_KEY, s))
            if holder != self.index:
                entries.append(seal(channels[holder], self.terms, self.index, holder, b + s))
        self._peers, self._channels = peers, channels
        self._held = {self.index: (of_seed[0], of_key[0])}
        self._due = Kind.MASKED
        return self._send(Kind.SHARES, *entries)

    def mask(self, delivery: bytes, words: Array) -> bytes:
        """The masked words."""
        sharing, body = read_set(self.terms, self._read(Kind.MASKED, Kind.DELIVERY, delivery))
        sealed = self._among(sharing, body, SEALED, "the delivery")
        whole = words.shape == (self.terms.words,) and words.dtype == np.uint64
        require(
            whole, f"expected {self.terms.words} words of uint64, got {words.dtype} {words.shape}"
        )
        held, total = dict(self._held), words + stream(self._seed, len(words))
        for peer, text in sealed.items():
            both = unseal(self._channels[peer], self.terms, peer, self.index, text)
            held[peer] = both[:SHARE], both[SHARE:]
            if max(int.from_bytes(share, "big") for share in held[peer]) >= PRIME:
                raise Refused(f"client {peer} sent a share that is none")
            key = self._masking.agree(self._peers[peer], mask_use(self.terms, self.index, peer))
            if self.index < peer:
                total += stream(key, len(words))
            else:
                total -= stream(key, len(words))
        self._held = held
        self._due = Kind.SIGNED if self.terms.consistency else Kind.UNMASK
        return self._send(Kind.MASKED, total.astype("<u8").tobytes())

    def agree(self, survivors: bytes) -> bytes:
        """A signature on the list of survivors: the consistency step."""
        body = self._read(Kind.SIGNED, Kind.SURVIVORS, survivors)
        self._survivors = self._plausible(body)
        self._due = Kind.UNMASK
        return self._send(
            Kind.SIGNED, sign(self._node_key or b"", survivors_text(self.terms, body))
        )

    def unmask(self, message: bytes) -> bytes:
        """One share of every client that shared with this one: of the seed for survivors, of the
        mask key for the others.

        `message` is the list of survivors or, with `consistency`, the signatures on that list."""
        if self.terms.consistency:
            self._all_signed(self._read(Kind.UNMASK, Kind.SIGNATURES, message))
            survivors = self._survivors
        else:
            survivors = self._plausible(self._read(Kind.UNMASK, Kind.SURVIVORS, message))
        revealed = [self._held[owner][owner not in survivors] for owner in sorted(self._held)]
        self._due = None
        # so that nothing can be revealed twice
        self._held, self._channels, self._seed = ({}, {}, b"")
        del self._sealing, self._masking
        return self._send(Kind.UNMASK, *revealed)

    def _send(self, kind: Kind, *body: bytes) -> bytes:
        return pack(self.terms, kind, self.index, SERVER, *body)

    def _is_due(self, step: Kind) -> None:
        if self._due != step:
            due = "nothing more" if self._due is None else self._due.name
            raise Refused(
                f"client {self.index} was asked for {step.name}, but {due} is due: each step is"
                " made once"
            )

    def _read(self, step: Kind, kind: Kind, message: bytes) -> bytes:
        self._is_due(step)
        return unpack(self.terms, kind, self.index, message)[1]

    def _enough(self, there: frozenset[int], around: int) -> None:
        if len(there) < self.terms.threshold:
            raise Withheld(
                f"{len(there)} of {self.terms.clients} clients are left: {self.terms.threshold}"
                " are needed"
            )
        if around < self.terms.quorum:
            raise Withheld(
                f"client {self.index}: {around} of its neighbourhood of {self.terms.degree + 1}"
                f" are left: {self.terms.quorum} are needed"
            )

    def _among(self, there: frozenset[int], body: bytes, size: int, what: str) -> dict[int, bytes]:
        """The entries of a body, one for each neighbour that is there."""
        if self.index not in there:
            raise Refused(f"{what} leaves out client {self.index}, to whom it was sent")
        neighbours = [peer for peer in self.terms.graph.neighbours(self.index) if peer in there]
        if self._due == Kind.MASKED and (
            strangers := [peer for peer in neighbours if peer not in self._peers]
        ):
            raise Refused(f"{what} names client {strangers[0]}, who never sent keys")
        exactly(body, size * len(neighbours), what)
        self._enough(there, 1 + len(neighbours))
        return dict(zip(neighbours, parts(body, 0, size), strict=True))

    def _checked(self, peer: int, card: bytes) -> bytes:
        keys, signature = card[: 2 * PUBLIC], card[2 * PUBLIC :]
        known = self._known.get(peer)
        if known is not None and not signed_by(
            known, signature, keys_text(self.terms, peer, keys)
        ):
            raise Refused(f"the keys of client {peer} are not signed by its node key")
        return keys

    def _plausible(self, body: bytes) -> frozenset[int]:
        """The list of survivors; raises if this client cannot accept it."""
        survivors, rest = read_set(self.terms, body)
        exactly(rest, 0, "the rest of the survivors")
        if self.index not in survivors:
            raise Refused(
                f"the survivors leave out client {self.index}, who sent its masked words"
            )
        around = survivors.intersection([self.index, *self.terms.graph.neighbours(self.index)])
        if strangers := sorted(around - set(self._held)):
            raise Refused(f"the survivors name client {strangers[0]}, who never shared keys")
        self._enough(survivors, len(around))
        return survivors

    def _all_signed(self, body: bytes) -> None:
        signers, rest = read_set(self.terms, body)
        exactly(rest, SIGNATURE * len(signers), "the signatures")
        if strangers := sorted(signers - self._survivors):
            raise Refused(f"client {strangers[0]} signed, but is no survivor")
        text = survivors_text(self.terms, write_set(self.terms, self._survivors))
        for signer, signature in zip(sorted(signers), parts(rest, 0, SIGNATURE), strict=True):
            if not signed_by(self._known[signer], signature, text):
                raise Refused(
                    f"client {signer} did not sign the survivors that client {self.index} was told"
                )
        self._enough(signers, self.terms.quorum)
