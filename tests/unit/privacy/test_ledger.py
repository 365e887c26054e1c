"""What a run is said to guarantee: against whom, for what, trusting whom, and in which words."""

import json
import math
import re
from dataclasses import dataclass

import pytest

from foltr.components.privatizers.gamma_shares import GammaShares
from foltr.components.privatizers.gaussian import Gaussian
from foltr.components.privatizers.laplace import Laplace
from foltr.components.privatizers.randomized_reward import RandomizedReward
from foltr.core.errors import Mistake
from foltr.core.events import (
    Conditions,
    GammaNoise,
    GaussianNoise,
    LaplaceNoise,
    RandomizedResponse,
    Setting,
)
from foltr.core.kinds import PrivatizerDefaults
from foltr.core.spec import privatizers
from foltr.privacy.accounting import pure_epsilon
from foltr.privacy.adversaries import share
from foltr.privacy.guarantee import ledger
from foltr.privacy.text import epsilon_text

D = 46


def account(
    privacy, cohort=1000, arriving=None, values=0, secure=False, shared=False, delta=1e-5, **more
):
    setting = Setting(D, cohort, cohort if arriving is None else arriving, 4, values)
    given = {
        "rounds": 100,
        "times": 100,
        "clients": cohort,
        "withstands": cohort if secure else None,
        **more,
    }
    return ledger(privacy, Conditions(setting, seed_is_shared=shared, **given), delta)


def trusted(found):
    return {view.who: view.trusted for view in found.views}


def epsilons(found, who):
    return [
        each.bound.epsilon for view in found.views if view.who == who for each in view.guarantees
    ]


CASES = {
    "none": (None, {}),
    "masks only": (None, {"secure": True}),
    "shares, bare": (GammaShares(1.2, 3.0), {}),
    "shares, published code, drop-outs": (
        GammaShares(1.2, 3.0, "full"),
        {"arriving": 700, "secure": True},
    ),
    "shares, half lost": (GammaShares(1.2, 3.0), {"arriving": 500, "secure": True}),
    "laplace": (Laplace(1.0, 0.1), {}),
    "normal, client": (Gaussian(8.0, 1.0), {}),
    "normal, shares, bare": (Gaussian(8.0, 1.0, "shares"), {}),
    "normal, shares, masked": (Gaussian(8.0, 1.0, "shares"), {"arriving": 667, "secure": True}),
    "normal, server": (Gaussian(8.0, 1.0, "server"), {}),
    "rewards": (RandomizedReward(0.9), {"values": 11}),
    "rewards, p = 1": (RandomizedReward(1.0), {"values": 11}),
    "rewards, published seeding": (RandomizedReward(0.9), {"values": 11, "shared": True}),
}


@pytest.fixture(params=CASES)
def found(request):
    privacy, more = CASES[request.param]
    return account(privacy, **more)


def test_a_block_is_short_narrow_and_plain(found):
    lines = found.lines()
    assert len(lines) <= 25 and max(map(len, lines)) <= 100
    assert not any(line != line.rstrip() for line in lines)
    assert not re.search(r"\binf\b|\bnan\b|[^\x20-\x7e]", " ".join(lines))


def test_a_ledger_is_plain_json(found):
    plain = found.plain()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    for view in plain["views"]:
        for each in view["guarantees"]:
            assert each["finite"] == (each["epsilon"] is not None) == (each["told"] != "no limit")
            assert each["how"] and each["title"]
    assert plain["lines"] == found.lines()


def test_every_privatizer_of_foltr_is_in_the_cases():
    assert {type(privacy) for privacy, _ in CASES.values()} >= set(privatizers.members().values())


def test_trust_is_named_where_something_holds_and_only_there(found):
    for view in found.views:
        holds = any(math.isfinite(each.bound.epsilon) for each in view.guarantees)
        assert (view.trusted is not None) == holds


def test_noise_on_each_message_needs_no_trust():
    for privacy in (Laplace(1.0, 0.1), Gaussian(8.0, 1.0)):
        found = account(privacy)
        assert trusted(found) == {"server": "nobody", "models": "nobody"}
        assert epsilons(found, "server") == epsilons(found, "models")
    assert found.guarantee("server", "round").delta == 1e-5
    laplace = account(Laplace(1.0, 0.1))
    assert laplace.guarantee("server", "round").epsilon == pytest.approx(1.0)
    assert laplace.guarantee("server", "round").delta == 0.0
    assert laplace.guarantee("server", "interaction") == laplace.guarantee("server", "round")
    assert 1.0 < laplace.guarantee("server", "client").epsilon < 100.0


def test_shares_without_a_secure_sum_hide_nothing_from_the_server():
    found = account(GammaShares(1.2, 3.0))
    assert epsilons(found, "server") == [math.inf, math.inf]
    assert trusted(found) == {"server": None, "models": "the server, for the sum"}
    assert found.guarantee("models", "round").epsilon == pytest.approx(5.838, abs=0.001)
    said = " ".join(found.remarks)
    assert (
        "98% of the numbers" in said
        and "SecureSum()" in said
        and "sqrt(46) = 6.8" in said
        and "8.14 a round" in said
    )


def test_normal_shares_without_a_secure_sum_hide_next_to_nothing():
    found = account(Gaussian(4.0, 1.0, "shares"))
    alone = account(Gaussian(4.0 / math.sqrt(1000), 1.0))
    assert epsilons(found, "server") == pytest.approx(epsilons(alone, "server"), rel=1e-3)
    assert found.guarantee("server", "round").epsilon > 100
    assert trusted(found) == {"server": "nobody", "models": "the server, for the sum"}


def test_a_secure_sum_shows_the_server_what_everybody_sees():
    for privacy in (GammaShares(1.2, 3.0), Gaussian(8.0, 1.0, "shares")):
        found = account(privacy, secure=True)
        assert (
            epsilons(found, "server")
            == epsilons(found, "models")
            == epsilons(account(privacy), "models")
        )
        assert set(trusted(found).values()) == {"enough other clients"}
        assert any("collude" in remark for remark in found.remarks)


def test_who_drops_out_takes_noise_along():
    by_arriving = [
        account(GammaShares(1.2, 3.0), arriving=k, secure=True)
        .guarantee("server", "round")
        .epsilon
        for k in (1000, 900, 700, 510, 500, 1)
    ]
    assert by_arriving == sorted(by_arriving) and by_arriving[-2:] == [math.inf, math.inf]
    assert by_arriving[3] < math.inf
    said = " ".join(account(GammaShares(1.2, 3.0), arriving=900, secure=True).remarks)
    assert "900 of 1,000 shares" in said and "at most 9.24 a round, instead of 5.84" in said
    lost = " ".join(account(GammaShares(1.2, 3.0), arriving=500, secure=True).remarks)
    assert "the ledger has no finite bound" in lost
    full, left = (
        Gaussian(8.0, 1.0, "shares").events(Setting(D, 1000, k, 4, 0))[0].sd for k in (1000, 640)
    )
    assert left == pytest.approx(0.8 * full)


def test_colluding_clients_give_their_noise_away_as_if_they_had_dropped_out():
    for privacy in (GammaShares(1.2, 3.0), Gaussian(8.0, 1.0, "shares")):
        for who in ("server", "models"):
            one = account(privacy, secure=True, colluding=100).guarantee(who, "round")
            assert one == account(privacy, arriving=900, secure=True).guarantee(who, "round")
    local = Laplace(1.0, 0.1)
    assert account(local, colluding=1000).guarantee("server", "round") == account(local).guarantee(
        "server", "round"
    )
    with pytest.raises(
        Mistake, match="1000 colluding clients leave no other client to hide among"
    ):
        account(GammaShares(1.2, 3.0), colluding=1000)
    with pytest.raises(Mistake, match="colluding must be >= 0, got -1"):
        account(local, colluding=-1)


def test_one_client_is_its_own_sum():
    found = account(GammaShares(1.2, 3.0), cohort=1)
    assert found.guarantee("server", "round") == found.guarantee("models", "round")


def test_a_server_that_adds_the_noise_must_be_trusted():
    found = account(Gaussian(8.0, 1.0, "server"))
    assert trusted(found) == {"server": None, "models": "the server"}
    assert epsilons(found, "models") == pytest.approx(
        epsilons(account(Gaussian(8.0, 1.0)), "models"), rel=1e-3
    )
    masked = account(Gaussian(8.0, 1.0, "server"), secure=True)
    assert any("receives the sum without noise" in remark for remark in masked.remarks)


def test_who_takes_part_counts_as_secret_only_for_noise_of_a_trusted_server():
    part = {"cohort": 100, "times": 21, "clients": 1000}
    known = account(Gaussian(8.0, 1.0, "server"), cohort=100, times=21)
    secret = account(Gaussian(8.0, 1.0, "server"), **part)
    assert (
        secret.guarantee("models", "client").epsilon < known.guarantee("models", "client").epsilon
    )
    assert "secret" in secret.guarantee("models", "client").how and any(
        "secret" in each for each in secret.remarks
    )
    assert epsilons(secret, "server") == [math.inf, math.inf]
    for where in ("client", "shares"):
        privacy = Gaussian(8.0, 1.0, where)
        assert epsilons(account(privacy, **part), "models") == epsilons(
            account(privacy, cohort=100, times=21), "models"
        )


def test_only_rounds_that_a_client_takes_part_in_count():
    some, every = account(Laplace(1.0, 0.1), times=20), account(Laplace(1.0, 0.1), times=100)
    assert some.guarantee("server", "client").epsilon < every.guarantee("server", "client").epsilon
    assert "one client, 20 rounds" in "\n".join(some.lines())
    assert "one client, 1 round " in "\n".join(account(Laplace(1.0, 0.1), times=1).lines()) + " "


def test_rewards_are_accounted_per_interaction_round_and_client():
    found = account(RandomizedReward(0.9), values=11)
    one, four, client = epsilons(found, "server")
    assert one == pytest.approx(math.log(90)) and four == pytest.approx(4 * math.log(90))
    assert 4 * math.log(90) < client <= 400 * math.log(90) * (1 + 1e-12)
    assert trusted(found) == {"server": "nobody", "models": "nobody"}
    assert found.guarantee("server", "interaction").epsilon == one


@pytest.mark.parametrize("more", [{"shared": True}, {}])
def test_published_seeding_and_p_1_guarantee_nothing(more):
    found = account(RandomizedReward(0.9 if more else 1.0), values=11, **more)
    assert all(math.isinf(each) for who in ("server", "models") for each in epsilons(found, who))
    assert [view.trusted for view in found.views] == [None, None]
    assert ("seed" if more else "p = 1") in found.remarks[0]


def test_no_privatizer_guarantees_nothing_and_says_so():
    found = account(None)
    assert found.mechanism == "none" and "There is no privacy guarantee" in " ".join(found.lines())
    assert all(math.isinf(each) for who in ("server", "models") for each in epsilons(found, who))
    assert "only sums" in " ".join(account(None, secure=True).lines())


def test_a_simulation_protects_nobody():
    for name, (privacy, more) in CASES.items():
        if privacy is not None and name != "rewards, published seeding":
            assert any(
                "operating system" in remark for remark in account(privacy, **more).remarks
            ), name


# ---- what it refuses


@dataclass(frozen=True)
class Odd(PrivatizerDefaults):
    event: object = None

    def events(self, setting):
        return () if self.event is None else (self.event,)

    def nominal(self):
        return "epsilon = 0.1"


def test_an_unknown_event_is_refused():
    with pytest.raises(Mistake, match="cannot account for events of type dict"):
        account(Odd({"epsilon": 0.1}))


def test_a_privatizer_that_describes_nothing_gets_no_credit():
    found = account(Odd())
    assert (
        all(math.isinf(each) for each in epsilons(found, "models"))
        and "describes nothing" in found.remarks[0]
    )


def test_shares_of_other_noise_are_not_guessed():
    with pytest.raises(Mistake, match="cannot account for shares of LaplaceNoise"):
        account(Odd(LaplaceNoise(1.0, 1.0, D, "sum", grid=0.5)))
    assert (
        epsilons(account(Odd(LaplaceNoise(1.0, 1.0, D, "sum", grid=0.5)), secure=True), "server")[
            0
        ]
        == 1.0
    )
    assert epsilons(account(Odd(LaplaceNoise(1.0, 1.0, D, "model", grid=0.5))), "server") == [
        math.inf,
        math.inf,
    ]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"delta": 0.0}, "delta"),
        ({"times": 101}, "101 of 100"),
        ({"times": 0}, "0 of 100"),
        ({"clients": 10}, "cannot be drawn from 10 clients"),
        ({"arriving": 1001}, "1001 of 1000"),
        ({"arriving": 0}, "0 of 1000"),
    ],
)
def test_what_cannot_be_is_refused(more, told):
    with pytest.raises(Mistake, match=told):
        account(Laplace(1.0, 0.1), **more)


# ---- small things


def test_shares_make_the_whole():
    whole = GaussianNoise(3.0, 1.0, "sum")
    assert math.sqrt(9) * share(whole, 9).sd == pytest.approx(3.0)
    assert share(GammaNoise(0.9, 1.0, 1.0, D, "sum"), 9).shape == pytest.approx(0.1)


def test_an_epsilon_is_never_rounded_down():
    for epsilon, told in (
        (1.001, "1.01"),
        (1.0, "1.00"),
        (99.999, "100.00"),
        (123.4, "124"),
        (1234567.1, "1,234,568"),
    ):
        assert epsilon_text(epsilon) == told
    assert epsilon_text(math.inf) == "no limit"


def test_what_privatizers_describe_is_what_the_papers_say():
    half, full = (
        GammaShares(1.2, 3.0, clip).events(Setting(D, 10, 10, 4, 0))[0]
        for clip in ("half", "full")
    )
    assert pure_epsilon(half) == pytest.approx(1.2 * math.sqrt(D), rel=1e-4)
    assert pure_epsilon(full) == pytest.approx(2.4 * math.sqrt(D), rel=1e-4)
    (answers,) = RandomizedReward(0.5).events(Setting(D, 10, 10, 4, 6))
    assert answers == RandomizedResponse(0.5, 6, 4)


# what a computer's numbers are not


def test_noise_that_lies_on_no_grid_guarantees_nothing():
    found = account(Odd(LaplaceNoise(1.0, 1.0, D, "message")))
    assert epsilons(found, "server") == epsilons(found, "models") == [math.inf, math.inf]
    assert any("lie on a grid" in remark for remark in found.remarks)
    assert (
        epsilons(account(Odd(LaplaceNoise(1.0, 1.0, D, "message", grid=0.01))), "server")[0] == 1.0
    )


@pytest.mark.parametrize("grid", [0.0, -1.0, math.nan])
def test_a_grid_has_steps(grid):
    with pytest.raises(Mistake, match="out of range"):
        account(Odd(LaplaceNoise(1.0, 1.0, D, "message", grid=grid)))


def test_what_probabilities_are_off_by_is_added_to_epsilon():
    exact, off = (
        account(Odd(GaussianNoise(4.0, 1.0, "message", 1.0, x)), times=10, rounds=10)
        for x in (0.0, 0.01)
    )
    once, often = (
        [b - a for a, b in zip(epsilons(exact, who), epsilons(off, who), strict=True)]
        for who in ("server", "models")
    )
    # delta is a little smaller, too
    assert once == often and 0.01 < once[0] < 0.012 and 0.1 < once[1] < 0.12
    assert (
        epsilons(account(Odd(LaplaceNoise(1.0, 1.0, D, "message", 1.0, math.inf))), "server")
        == [math.inf] * 2
    )


def test_shares_too_small_for_their_grid_guarantee_nothing():
    assert epsilons(account(Gaussian(1e-4, 1.0, "shares"), secure=True), "server") == [
        math.inf,
        math.inf,
    ]
    assert math.isfinite(epsilons(account(Gaussian(0.1, 1.0, "shares"), secure=True), "server")[0])


@pytest.mark.parametrize("units", [{"values": 11}, {}])
def test_what_a_device_remembers_makes_one_round_all_of_them(units):
    privacy = RandomizedReward(0.9) if units else Laplace(1.0, 0.1)
    found, usual = account(privacy, remembers=True, **units), account(privacy, **units)
    assert set(epsilons(found, "server")) == {epsilons(usual, "server")[-1]}


def test_amplification_by_secrecy_ends_where_others_reveal_who_was_drawn():
    part = {"cohort": 100, "times": 21, "clients": 1000}
    told = account(Gaussian(8.0, 1.0, "server"), **part, malicious=1)
    assert not told.guarantee("models", "client").secret
    kept = account(Gaussian(8.0, 1.0, "server"), **part, remembers=True)
    assert kept.guarantee("models", "round") == kept.guarantee("models", "client")


def test_a_privatizer_whose_server_clips_nothing_can_be_swamped():
    noise = GaussianNoise(4.0, 1.0, "model", 1.0)
    assert epsilons(account(Odd(noise), unbounded=True), "models") == [math.inf, math.inf]
    assert math.isfinite(epsilons(account(Odd(noise)), "models")[0])
    assert math.isfinite(
        epsilons(account(Gaussian(8.0, 1.0, "server"), unbounded=True), "models")[0]
    )
