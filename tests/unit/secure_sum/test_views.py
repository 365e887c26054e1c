"""What the server and those who help it can see, and what they cannot."""

import numpy as np
import pytest
from parties import Parties, looks_uniform, ring_terms, small_terms

from foltr.secure_sum.arithmetic import SHARE, combine
from foltr.secure_sum.keys import KeyPair, commitment, mask_use, stream
from foltr.secure_sum.messages import HEADER, SERVER, Kind, pack, write_set


def masked_words(parties, i):
    return np.frombuffer(parties.sent[Kind.MASKED][i][HEADER.size :], "<u8")


def pair_masks(parties, i, key, others):
    """What the neighbours' masks add to client i's words, given its private mask key."""
    total = np.zeros(parties.terms.words, np.uint64)
    for other in others:
        public = parties.server._cards[other][32:64]
        mask = stream(key.agree(public, mask_use(parties.terms, i, other)), parties.terms.words)
        total = total + mask if i < other else total - mask
    return total


@pytest.mark.parametrize("constant", [0, 1, 2**32, 2**64 - 1])
def test_masked_words_look_uniform_whatever_they_hide(constant):
    terms = small_terms(3, 2, words=10_000)
    words = dict.fromkeys(range(3), np.full(terms.words, constant, np.uint64))
    parties = Parties(terms, words).until(Kind.UNMASK)
    assert not looks_uniform(words[0])
    for i in range(3):
        seen = masked_words(parties, i)
        assert looks_uniform(seen)
        assert looks_uniform(seen[1:] - seen[:-1]) and looks_uniform(
            seen - masked_words(parties, (i + 1) % 3)
        )


def test_every_input_explains_what_the_server_sees():
    """y = x + own mask + masks with others. For any other x' the own mask x - x' + (own mask)
    gives the same y, and a uniform mask is as likely to be the one as the other."""
    parties = Parties(small_terms(4, 3)).until(Kind.MASKED)
    client = parties.clients[1]
    own, masking = stream(client._seed, 3), client._masking
    parties.step()
    seen, others = masked_words(parties, 1), pair_masks(parties, 1, masking, [0, 2, 3])
    np.testing.assert_array_equal(seen, parties.words[1] + own + others)
    for another in np.random.default_rng(2).integers(0, 2**64, (20, 3), np.uint64):
        mask = own + parties.words[1] - another
        np.testing.assert_array_equal(seen, another + mask + others)


def test_no_secret_no_word_and_no_eight_bytes_of_them_are_in_any_message():
    parties = Parties(small_terms(5, 3, words=4)).step().step()
    hidden = []
    for i, client in parties.clients.items():
        keys = [
            client._sealing.private.private_bytes_raw(),
            client._masking.private.private_bytes_raw(),
        ]
        for secret in (
            client._seed,
            *keys,
            *client._channels.values(),
            parties.words[i].tobytes(),
        ):
            hidden += [secret[at : at + 8] for at in range(0, len(secret), 8)]
    parties.step([0, 1, 2, 3]).step()
    everything = b"".join(message for step in parties.sent.values() for message in step.values())
    assert not any(piece in everything for piece in hidden)


def test_a_client_reveals_one_share_of_each_other_and_never_both():
    parties = Parties(small_terms(5, 3)).step().step().step([0, 1, 2, 3])
    held = {i: dict(parties.clients[i]._held) for i in range(4)}
    parties.step()
    everything = b"".join(message for step in parties.sent.values() for message in step.values())
    for i in range(4):
        body = parties.sent[Kind.UNMASK][i][HEADER.size :]
        revealed = [body[at : at + SHARE] for at in range(0, len(body), SHARE)]
        assert revealed == [held[i][owner][0] for owner in range(4)] + [held[i][4][1]]
        assert (
            not any(held[i][owner][1] in everything for owner in range(4))
            and held[i][4][0] not in everything
        )


@pytest.mark.parametrize("colluding", [2, 3])
def test_one_colluding_client_short_of_the_threshold_cannot_unmask(colluding):
    """Of five clients with a threshold of three, two pool all that they know with the server:
    client 0 stays hidden. Three do unmask it: the same attack, so the test has teeth."""
    parties = Parties(small_terms(5, 3)).until(Kind.UNMASK)
    helpers = range(5 - colluding, 5)
    pooled = {
        helper + 1: int.from_bytes(parties.clients[helper]._held[0][1], "big")
        for helper in helpers
    }
    # the session ends as it should: client 0 is a survivor, so its seed is known to the server
    parties.step()
    seeds = parties.server._revealed[0]
    points = tuple(sorted(seeds))[:3]
    seed = combine(points, [seeds[x] for x in points]).to_bytes(32, "big")
    assert commitment(parties.terms, 0, seed) == parties.server._shares[0][:32]

    guess = (
        combine(tuple(sorted(pooled)), [pooled[x] for x in sorted(pooled)]) % 2**256
    ).to_bytes(32, "big")
    unmasked = (
        masked_words(parties, 0)
        - stream(seed, 3)
        - pair_masks(parties, 0, KeyPair.of(guess), range(1, 5))
    )
    found = KeyPair.of(guess).public == parties.server._cards[0][32:64]
    assert found == (colluding == 3) == bool((unmasked == parties.words[0]).all())


def test_a_message_that_came_too_late_stays_masked():
    """The mask key of a drop-out is revealed; if its words arrive after all, its own mask still
    hides them."""
    parties = Parties(small_terms(4, 3, words=10_000)).until(Kind.MASKED)
    late, seed = parties.clients[2], parties.clients[2]._seed
    message = late.mask(parties.post[2], parties.words[2])
    parties.step([0, 1, 3]).step()
    shares = parties.server._revealed[2]
    key = KeyPair.of(
        combine(tuple(sorted(shares)), [shares[x] for x in sorted(shares)]).to_bytes(32, "big")
    )
    assert key.public == parties.server._cards[2][32:64]
    bare = np.frombuffer(message[HEADER.size :], "<u8") - pair_masks(parties, 2, key, [0, 1, 3])
    assert looks_uniform(bare) and not (bare == parties.words[2]).any()
    np.testing.assert_array_equal(bare - stream(seed, 10_000), parties.words[2])


def test_a_lying_server_gets_both_secrets_of_nobody():
    """It tells half of the clients that client 5 survived and the other half that it did not. More
    than half of all shares are needed for either secret, and each client gives one: not both are
    to be had, even without signatures."""
    parties = Parties(small_terms(6, 4)).until(Kind.UNMASK)
    kinds = {"seed": {}, "key": {}}
    for i in range(5):
        there = range(6) if i < 3 else range(5)
        held = parties.clients[i]._held[5]
        message = pack(parties.terms, Kind.SURVIVORS, SERVER, i, write_set(parties.terms, there))
        share = parties.clients[i].unmask(message)[HEADER.size :][5 * SHARE :]
        kind = "seed" if i < 3 else "key"
        assert share == held[kind == "key"]
        kinds[kind][i + 1] = share
    assert all(len(shares) < parties.terms.quorum for shares in kinds.values())


def test_keys_and_masks_are_fresh_in_every_session():
    """The same words, twice: nothing that is sent repeats."""
    terms = ring_terms(8, 5, 4, 4)
    first, second = Parties(terms).until(None), Parties(terms).until(None)
    for step in first.sent:
        for i in range(8):
            one, two = (p.sent[step][i][HEADER.size : HEADER.size + 24] for p in (first, second))
            assert one != two


def test_masks_are_the_stream_of_chacha20():
    """RFC 8439, appendix A.1, test vector 1: key, nonce and counter all zero."""
    printed = (
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1a"
        "a836efcc8b770dc7da41597c5157488d7724e03fb8d84a37"
    )
    assert stream(bytes(32), 6).tobytes().hex() == printed
