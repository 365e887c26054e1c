"""Randomness by address: fixed words, computed here with Python's own integers, and the same bits
in compiled code."""

from hashlib import blake2b

import numpy as np
from scipy import stats

from chance import RARE
from foltr.core.seeds import BRANCH, GOLDEN, Stream, below, key, stream
from foltr.kernels import draws

WORD = 1 << 64


def splitmix64(state: int):
    """The published generator (Steele, Lea & Flood 2014), written from the paper."""
    while True:
        state = (state + 0x9E3779B97F4A7C15) % WORD
        z = state
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % WORD
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % WORD
        yield z ^ (z >> 31)


def key_whose_first_word_is(word: int) -> int:
    """The finaliser backwards."""

    def unshifted(y: int, shift: int) -> int:
        x = y
        for _ in range(64 // shift):
            x = y ^ (x >> shift)
        return x

    z = unshifted(word, 31) * pow(0x94D049BB133111EB, -1, WORD) % WORD
    z = unshifted(z, 27) * pow(0xBF58476D1CE4E5B9, -1, WORD) % WORD
    return unshifted(z, 30)


def test_the_words_of_a_stream_are_the_published_sequence():
    # the five outputs for seed 1234567 that implementations of splitmix64 are commonly checked
    # against
    published = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    assert Stream((1234567 + GOLDEN) % WORD).words(5).tolist() == published
    assert [word for word, _ in zip(splitmix64(1234567), range(5), strict=False)] == published


def test_an_address_is_a_chain_of_words():
    hashed = int.from_bytes(blake2b(b"ranking", digest_size=8).digest(), "little")
    here = next(splitmix64(7))
    for part in (hashed, 3, 2):
        branch = next(splitmix64((here ^ BRANCH) - GOLDEN))
        here = next(splitmix64(branch + (part - 1) * GOLDEN))
    assert key(7, "ranking", 3, 2) == here == 0x579C52389FCF2BC0
    assert stream(7, "ranking", 3, 2).words(3).tolist() == [
        1437455673948865643,
        15818580450697921974,
        6713342972475284533,
    ]
    assert stream(7, "ranking").at(3).at(2).key == here


def test_addresses_keep_apart():
    keys = {
        key(seed, name, i, j)
        for seed in range(5)
        for name in ("user", "ranking")
        for i in range(20)
        for j in range(20)
    }
    assert len(keys) == 5 * 2 * 20 * 20


def test_compiled_draws_are_the_same_bits():
    for k in (0, 1, 1234567, WORD - 1, key(3, "user", 17)):
        words, uniforms = Stream(k).words(100), Stream(k).uniforms(100)
        one = Stream(k)
        for i in range(100):
            assert draws.word(np.uint64(k), np.uint64(i)) == words[i]
            assert draws.uniform(np.uint64(k), np.uint64(i)) == uniforms[i] == one.uniform()
            assert draws.below(np.uint64(k), np.uint64(i)) == below(k, i)


def test_a_stream_goes_on_where_it_stopped():
    whole, parts = Stream(5).uniforms(9), Stream(5)
    assert (
        np.concatenate([parts.uniforms(4), [parts.uniform()], parts.uniforms(4)]).tolist()
        == whole.tolist()
    )


def test_uniforms_are_uniform():
    u = stream(1, "test").uniforms(20_000)
    assert stats.kstest(u, "uniform").pvalue > RARE
    assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 6 / np.sqrt(len(u))  # six standard errors
    assert stats.kstest(stream(1, "test").normals(20_001), "norm").pvalue > RARE


def test_the_greatest_word_stays_below_one():
    k = key_whose_first_word_is(WORD - 1)
    assert Stream(k).words(1)[0] == WORD - 1
    assert (
        Stream(k).uniform() < 1.0 and Stream(k).uniforms(1)[0] < 1.0 and Stream(k).integer(7) < 7
    )
    assert draws.uniform(np.uint64(k), np.uint64(0)) < 1.0


def test_the_least_word_stays_above_zero():
    k = key_whose_first_word_is(0)
    assert Stream(k).words(1)[0] == 0
    assert Stream(k).uniform() > 0.0 and Stream(k).uniforms(1)[0] > 0.0
    assert draws.uniform(np.uint64(k), np.uint64(0)) > 0.0


def test_a_sample_is_without_replacement_and_fair():
    taken = np.zeros(10)
    for t in range(2_000):
        sample = stream(2, "participation", t).sample(10, 3)
        assert len(set(sample.tolist())) == 3 and (np.diff(sample) > 0).all()
        taken[sample] += 1
    assert stats.chisquare(taken).pvalue > RARE  # conservative: three of a draw are never equal
