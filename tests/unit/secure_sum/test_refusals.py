"""Malformed, replayed, repeated, misdirected, tampered: each refused with the reason, and nothing
is changed by it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from parties import MODEL, SIGNED_STEPS, STEPS, Parties, plain_sum, ring_terms, small_terms

from foltr.core import Withheld
from foltr.core.errors import Mistake
from foltr.secure_sum.arithmetic import PRIME, SHARE
from foltr.secure_sum.client import CARD, SEALED, SumClient
from foltr.secure_sum.keys import KeyPair, node_key, seal
from foltr.secure_sum.messages import HEADER, SERVER, Kind, Refused, pack, write_set
from foltr.secure_sum.server import OWN, SumServer
from property_settings import examples


def flipped(message, at, bits=1):
    changed = bytearray(message)
    changed[at] ^= bits
    return bytes(changed)


def finished(parties):
    """The rest of the session goes through, with the exact sum."""
    while parties.server.due is not None:
        parties.step()
    expected = plain_sum(parties.terms, parties.words, parties.server.survivors)
    np.testing.assert_array_equal(parties.server.total(), expected)


@pytest.mark.parametrize("step", SIGNED_STEPS)
def test_the_server_refuses_what_is_not_due_and_goes_on(step):
    parties = Parties(small_terms(4, 3, consistency=True)).until(step)
    messages = parties.collect()
    good = messages[1]
    other = Parties(small_terms(4, 3, consistency=True))
    other.until(step)
    body = good[HEADER.size :]
    wrong = {
        "fewer than a header": good[:10],
        "begins with": b"xx" + good[2:],
        "version 2": flipped(good, 2, 3),
        "another session": other.collect()[1],
        "of round 6, not of round 5": flipped(good, 20, 3),
        "who is not of this session": good[:24] + b"\x09" + good[25:],
        "to 2, not to": good[:28] + b"\x02\x00\x00\x00" + good[32:],
        "announced": good + b"\x00",
        "bytes, expected|did not sign": pack(parties.terms, step, 1, SERVER, body + b"\x00"),
        "out of order: ROSTER": pack(parties.terms, Kind.ROSTER, 1, SERVER, body),
        "out of order: kind 77": good[:3] + bytes([77]) + good[4:],
        "a message is bytes": bytearray(good),
    }
    for reason, message in wrong.items():
        with pytest.raises(Refused, match=reason):
            parties.server.take(message)
    for message in messages.values():
        parties.server.take(message)
    with pytest.raises(
        Refused, match=f"client 1 has already sent {step.name}: sent twice, or replayed"
    ):
        parties.server.take(good)
    parties.post = parties.server.close()
    with pytest.raises(Refused, match=r"out of order|this session is over"):
        parties.server.take(good)
    finished(parties)


@pytest.mark.parametrize("step", SIGNED_STEPS[1:])
def test_a_client_refuses_what_is_not_due_and_goes_on(step):
    parties = Parties(small_terms(4, 3, consistency=True)).until(step)
    good = parties.post[1]
    wrong = {
        "fewer than a header": b"",
        "announced": good[:-1],
        "another session": flipped(good, 5),
        "of round": flipped(good, 20),
        "to 2, not to 1": parties.post[2],
        "who is not of this session": good[:24] + bytes(4) + good[28:],
        "out of order: KEYS": flipped(good[:3] + b"\x01" + good[4:], 0, 0),
        "names a client beyond": flipped(good, HEADER.size, 0x80),
    }
    for reason, message in wrong.items():
        with pytest.raises(Refused, match=reason):
            parties.answer(1, message)
    others = {i: parties.answer(i) for i in parties.post}
    with pytest.raises(Refused, match="each step is made once"):
        parties.answer(1)
    for message in others.values():
        parties.server.take(message)
    parties.post = parties.server.close()
    finished(parties)


def test_a_client_makes_each_step_once_and_in_order():
    parties = Parties(small_terms(3, 2))
    client = parties.clients[0]
    with pytest.raises(Refused, match="asked for SHARES, but KEYS is due"):
        client.share(b"")
    parties.until(None)
    for step in (client.advertise, lambda: client.share(b""), lambda: client.unmask(b"")):
        with pytest.raises(Refused, match="but nothing more is due"):
            step()


def test_whoever_dropped_out_stays_out():
    """A masked input that comes too late is refused: with the mask key that the others reveal it
    would be half open."""
    parties = Parties(small_terms(4, 3)).until(Kind.MASKED)
    late = parties.collect()[2]
    for i in (0, 1, 3):
        parties.server.take(parties.sent[Kind.MASKED][i])
    parties.post = parties.server.close()
    with pytest.raises(Refused, match="out of order: MASKED"):
        parties.server.take(late)
    with pytest.raises(Refused, match="client 2 dropped out before UNMASK"):
        parties.server.take(pack(parties.terms, Kind.UNMASK, 2, SERVER, bytes(4 * SHARE)))
    finished(parties)
    assert parties.server.survivors == {0, 1, 3}


@pytest.mark.parametrize("offset", [0, SHARE - 1, SHARE, 4 * SHARE - 1])
def test_a_share_that_was_tampered_with_is_refused_when_it_is_revealed(offset):
    parties = Parties(small_terms(4, 3)).until(Kind.UNMASK)
    messages = parties.collect()
    owner = offset // SHARE
    with pytest.raises(
        Refused, match=f"client 1 revealed a share that does not fit what client {owner} published"
    ):
        parties.server.take(flipped(messages[1], HEADER.size + offset))
    for i in (0, 2, 3):
        parties.server.take(messages[i])
    parties.server.close()
    np.testing.assert_array_equal(
        parties.server.total(), plain_sum(parties.terms, parties.words, range(4))
    )


def test_sealed_shares_that_were_tampered_with_or_swapped_are_refused():
    parties = Parties(small_terms(4, 3)).until(Kind.MASKED)
    good = parties.post[1]
    start = HEADER.size + 1  # behind the bitmap of four clients: entries of 0, 2 and 3
    with pytest.raises(Refused, match="shares from client 2 to client 1 were tampered with"):
        parties.answer(1, flipped(good, start + SEALED))
    swapped = (
        good[:start] + good[start + SEALED : start + 2 * SEALED] + good[start : start + SEALED]
    )
    with pytest.raises(Refused, match="shares from client 0 to client 1 were tampered with"):
        parties.answer(1, swapped + good[start + 2 * SEALED :])
    # from client 1 to client 3, sent back to client 1
    other = parties.post[3][start + SEALED : start + 2 * SEALED]
    with pytest.raises(Refused, match="shares from client 3 to client 1 were tampered with"):
        parties.answer(1, good[: start + 2 * SEALED] + other)
    finished(parties)


def test_a_client_that_publishes_false_things_of_its_secrets_spoils_the_round_but_never_the_sum():
    for offset, reason in (
        (0, "client 2 do not give the seed that it committed to"),
        (OWN, "does not fit"),
    ):
        parties = Parties(small_terms(4, 4)).until(Kind.SHARES)
        messages = parties.collect()
        messages[2] = flipped(messages[2], HEADER.size + offset)
        for message in messages.values():
            parties.server.take(message)
        parties.post = parties.server.close()
        parties.step()
        with pytest.raises((Withheld, Refused), match=reason):
            parties.step()
        with pytest.raises(Withheld):
            parties.server.total()


def test_a_key_replaced_on_its_way_is_noticed_without_signatures_and_named_with_them():
    for place in (0, 40):  # of the key that seals, of the mask key
        parties = Parties(small_terms(3, 2)).until(Kind.SHARES)
        messages = {
            i: parties.answer(i, flipped(m, HEADER.size + 1 + place) if i == 0 else m)
            for i, m in parties.post.items()
        }
        for message in messages.values():
            parties.server.take(message)
        parties.post = parties.server.close()
        with pytest.raises(Refused, match="shares from client 1 to client 0 were tampered with"):
            parties.answer(0)
        parties = Parties(small_terms(3, 2), node_keys=True).until(Kind.SHARES)
        with pytest.raises(Refused, match="keys of client 1 are not signed by its node key"):
            parties.answer(0, flipped(parties.post[0], HEADER.size + 1 + place))


def test_keys_must_be_signed_where_node_keys_are_known():
    parties = Parties(small_terms(3, 2), node_keys=True)
    stranger = SumClient(parties.terms, 1, MODEL, smallest=2)
    impostor = SumClient(parties.terms, 1, MODEL, node_key()[0], parties.known, smallest=2)
    for client in (stranger, impostor):
        with pytest.raises(Refused, match="keys of client 1 are not signed by its node key"):
            parties.server.take(client.advertise())
    finished(parties)


def test_a_signature_of_another_session_or_client_is_worth_nothing():
    parties = Parties(small_terms(3, 2), node_keys=True)
    keys = parties.answer(1)
    moved = pack(parties.terms, Kind.KEYS, 0, SERVER, keys[HEADER.size :])
    again = pack(small_terms(3, 2), Kind.KEYS, 1, SERVER, keys[HEADER.size :])
    with pytest.raises(Refused, match="keys of client 0 are not signed"):
        parties.server.take(moved)
    with pytest.raises(Refused, match="another session"):
        parties.server.take(again)
    renamed = SumServer(small_terms(3, 2), parties.known)
    with pytest.raises(Refused, match="keys of client 1 are not signed"):
        renamed.take(pack(renamed.terms, Kind.KEYS, 1, SERVER, keys[HEADER.size :]))


@pytest.mark.parametrize("point", [0, 1])
def test_a_public_key_of_low_order_is_refused(point):
    parties = Parties(small_terms(3, 2))
    weak = point.to_bytes(32, "little")
    strong = parties.clients[0].advertise()[HEADER.size + 32 : HEADER.size + 64]
    for keys in (weak + strong, strong + weak):
        with pytest.raises(Refused, match="agrees on nothing secret"):
            parties.server.take(pack(parties.terms, Kind.KEYS, 0, SERVER, keys + bytes(64)))


def test_a_copied_key_is_refused():
    parties = Parties(small_terms(3, 2))
    first = parties.answer(0)
    parties.server.take(first)
    with pytest.raises(Refused, match="client 1 sent a key that is not fresh"):
        parties.server.take(pack(parties.terms, Kind.KEYS, 1, SERVER, first[HEADER.size :]))
    with pytest.raises(Refused, match="client 1 sent a key that is not fresh"):
        own = parties.answer(1)[HEADER.size : HEADER.size + 32]
        parties.server.take(pack(parties.terms, Kind.KEYS, 1, SERVER, own + own + bytes(64)))
    parties = Parties(small_terms(3, 2)).until(Kind.SHARES)
    card = parties.post[0][HEADER.size + 1 : HEADER.size + 1 + CARD]
    with pytest.raises(Refused, match="client 2 has a key that somebody else has"):
        parties.answer(
            0,
            pack(
                parties.terms,
                Kind.ROSTER,
                SERVER,
                0,
                write_set(parties.terms, range(3)),
                card,
                card,
            ),
        )


def test_a_delivery_from_someone_who_never_sent_keys_is_refused():
    parties = Parties(small_terms(4, 3)).step([0, 1, 2]).step()
    everybody = write_set(parties.terms, range(4))
    with pytest.raises(Refused, match="the delivery names client 3, who never sent keys"):
        parties.answer(
            0, pack(parties.terms, Kind.DELIVERY, SERVER, 0, everybody, bytes(3 * SEALED))
        )
    with pytest.raises(Refused, match="the delivery leaves out client 0"):
        parties.answer(
            0,
            pack(
                parties.terms,
                Kind.DELIVERY,
                SERVER,
                0,
                write_set(parties.terms, [1, 2]),
                bytes(2 * SEALED),
            ),
        )
    finished(parties)


def test_a_share_outside_the_field_is_refused():
    parties = Parties(small_terms(3, 2)).until(Kind.MASKED)
    liar, good = parties.clients[1], parties.post[0]
    start = HEADER.size + 1
    for text in (PRIME.to_bytes(SHARE, "big") + bytes(SHARE), bytes(SHARE) + b"\xff" * SHARE):
        sealed = seal(liar._channels[0], parties.terms, 1, 0, text)
        with pytest.raises(Refused, match="client 1 sent a share that is none"):
            parties.answer(0, good[:start] + sealed + good[start + SEALED :])
    finished(parties)


def test_a_client_that_shares_a_false_mask_key_and_leaves_spoils_the_round_but_never_the_sum():
    parties = Parties(small_terms(4, 3)).step()
    liar = parties.clients[2]
    liar._masking = KeyPair(KeyPair.fresh().private, liar._masking.public)
    parties.step().step([0, 1, 3])
    with pytest.raises(
        Withheld, match="shares of client 2 do not give the private key of its public one"
    ):
        parties.step()


def test_a_ring_with_a_hole_is_withheld_before_anyone_reveals_anything():
    parties = Parties(ring_terms(12, 7, 4, 4)).until(Kind.MASKED)
    gone = parties.terms.graph.neighbours(0)[:2]
    for i, message in parties.collect().items():
        if i not in gone:
            parties.server.take(message)
    with pytest.raises(
        Withheld, match="a client has fewer than 4 survivors among its neighbours and itself"
    ):
        parties.server.close()
    assert parties.server.due is None


def test_a_ring_whose_survivors_fall_silent_is_withheld():
    parties = Parties(ring_terms(12, 7, 4, 4)).until(Kind.UNMASK)
    silent = parties.terms.graph.neighbours(0)[:2]
    with pytest.raises(Withheld, match=r"client \d+: 3 shares were revealed, 4 are needed"):
        parties.step([i for i in range(12) if i not in silent])


def test_node_keys_of_the_wrong_length_are_refused():
    for make in (
        lambda: SumServer(small_terms(3, 2), {1: b"short"}),
        lambda: SumClient(small_terms(3, 2), 0, MODEL, None, {1: b"short"}, smallest=2),
    ):
        with pytest.raises(Mistake, match="public node key of client 1 has 5 bytes, expected 32"):
            make()
    with pytest.raises(Mistake, match="a node key is an Ed25519 private key of 32 bytes"):
        SumClient(small_terms(3, 2), 0, MODEL, b"short", smallest=2)


def lists(parties, clients):
    return pack(parties.terms, Kind.SURVIVORS, SERVER, 0, write_set(parties.terms, clients))


def test_a_client_accepts_no_list_of_survivors_that_would_bare_anyone():
    parties = Parties(small_terms(5, 3)).step().step([0, 1, 2, 3]).step()
    client = parties.clients[0]
    with pytest.raises(Withheld, match="2 of 5 clients are left: 3 are needed"):
        client.unmask(lists(parties, [0, 1]))
    with pytest.raises(Refused, match="leave out client 0"):
        client.unmask(lists(parties, [1, 2, 3]))
    with pytest.raises(Refused, match="name client 4, who never shared keys"):
        client.unmask(lists(parties, [0, 1, 2, 4]))
    with pytest.raises(Refused, match="the rest of the survivors"):
        client.unmask(
            pack(
                parties.terms,
                Kind.SURVIVORS,
                SERVER,
                0,
                write_set(parties.terms, range(4)),
                b"\x00",
            )
        )
    finished(parties)


def test_a_client_on_a_ring_needs_a_quorum_around_it():
    parties = Parties(ring_terms(12, 7, 4, 4)).until(Kind.UNMASK)
    near = parties.terms.graph.neighbours(0)
    with pytest.raises(
        Withheld, match="client 0: 3 of its neighbourhood of 5 are left: 4 are needed"
    ):
        parties.clients[0].unmask(lists(parties, set(range(12)) - set(near[:2])))


def test_two_lists_of_survivors_are_caught_by_the_consistency_step():
    """A server that tells some that client 5 survived and others that it did not gets no share at
    all."""
    parties = Parties(small_terms(6, 4, consistency=True)).until(Kind.SIGNED)
    told = {i: [0, 1, 2, 3, 4] if i < 3 else range(6) for i in range(6)}
    signatures = {}
    for i, clients in told.items():
        if i != 5:
            message = pack(
                parties.terms, Kind.SURVIVORS, SERVER, i, write_set(parties.terms, clients)
            )
            signatures[i] = parties.clients[i].agree(message)[HEADER.size :]
    for i in (0, 3):
        same = [j for j in signatures if list(told[j]) == list(told[i])]
        some = pack(
            parties.terms,
            Kind.SIGNATURES,
            SERVER,
            i,
            write_set(parties.terms, same),
            *(signatures[j] for j in same),
        )
        with pytest.raises(Withheld, match="are needed"):
            parties.clients[i].unmask(some)
        everything = pack(
            parties.terms,
            Kind.SIGNATURES,
            SERVER,
            i,
            write_set(parties.terms, signatures),
            *signatures.values(),
        )
        with pytest.raises(Refused, match=f"did not sign the survivors that client {i} was told"):
            parties.clients[i].unmask(everything)


def test_a_signature_must_be_a_survivors_own():
    parties = Parties(small_terms(4, 3, consistency=True)).step().step().step([0, 1, 2])
    messages = parties.collect()
    forged = pack(parties.terms, Kind.SIGNED, 1, SERVER, messages[0][HEADER.size :])
    with pytest.raises(Refused, match="client 1 did not sign"):
        parties.server.take(forged)
    for message in messages.values():
        parties.server.take(message)
    good = parties.server.close()[0]
    stranger = pack(
        parties.terms,
        Kind.SIGNATURES,
        SERVER,
        0,
        write_set(parties.terms, range(4)),
        bytes(4 * 64),
    )
    with pytest.raises(Refused, match="client 3 signed, but is no survivor"):
        parties.clients[0].unmask(stranger)
    parties.clients[0].unmask(good)


def test_a_client_masks_only_what_the_terms_say():
    parties = Parties(small_terms(3, 2)).until(Kind.MASKED)
    for words in (np.zeros(4, np.uint64), np.zeros(3), np.zeros((3, 1), np.uint64)):
        with pytest.raises(Mistake, match="expected 3 words of uint64"):
            parties.clients[0].mask(parties.post[0], words)
    finished(parties)


@given(st.data())
@examples(200)
def test_any_change_of_any_message_ends_in_a_refusal_or_in_the_exact_sum(data):
    """Except for masked words themselves, which look like any others: the transport must protect
    them."""
    step = data.draw(st.sampled_from(STEPS))
    to_server = data.draw(st.booleans()) or step == Kind.KEYS
    parties = Parties(small_terms(4, 3)).until(step)
    # with a drop-out, whose mask key must be put together
    if data.draw(st.booleans()) and step == Kind.UNMASK:
        parties = Parties(small_terms(4, 3)).until(Kind.MASKED).step([0, 1, 3])
    try:
        if not to_server:
            message = parties.post[1]
            parties.post[1] = changed(data, message)
        messages = parties.collect()
        if to_server:
            start = HEADER.size if step == Kind.MASKED else len(messages[1])
            messages[1] = changed(data, messages[1], start)
        for message in messages.values():
            parties.server.take(message)
        parties.post = parties.server.close()
        finished(parties)
    except (Refused, Withheld) as reason:
        assert str(reason)
        with pytest.raises(Withheld):
            parties.server.total()


def changed(data, message, stop=None):
    how = data.draw(st.sampled_from(["flip", "cut", "grow", "random"]))
    if how == "flip":
        return flipped(
            message,
            data.draw(st.integers(0, (stop or len(message)) - 1)),
            data.draw(st.integers(1, 255)),
        )
    if how == "cut":
        return message[: data.draw(st.integers(0, len(message) - 1))]
    return (
        message + data.draw(st.binary(min_size=1))
        if how == "grow"
        else data.draw(st.binary(max_size=200))
    )
