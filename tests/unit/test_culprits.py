"""A component that gives numbers that are not finite, or something else than the array that is
due, is named with what it gave and the round. Steps that are too large are still called that."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from foltr.core import Cohort
from foltr.core.errors import Mistake
from foltr.core.kinds import (
    ChangesMessages,
    LearnerDefaults,
    Memoryless,
    OptimizerDefaults,
    PrivatizerDefaults,
    SendsUpdates,
)
from foltr.core.spec import (
    FAMILIES,
    aggregators,
    attacks,
    channels,
    learners,
    measures,
    optimizers,
    privatizers,
    rankers,
)
from foltr.core.world.measures import OfflineMeasure, OnlineMeasure
from foltr.experiment import Experiment

SMALL = Experiment(data="Synthetic(queries=20)", clients=3, rounds=2, learner="PDGD(sessions=1)")
OF = {
    "nan": lambda right: right * np.nan,
    "inf": lambda right: right * 0.0 + np.inf,
    "list": lambda right: right.tolist(),
    "float16": lambda right: right.astype(np.float16),
    "float32": lambda right: right.astype(np.float32),
    "float64": lambda right: right.astype(np.float64),
    "int": lambda right: right.astype(int),
    "bool": lambda right: right > 0,
    "scalar": lambda right: float(right[0]),
    "row": lambda right: right[None],
    "column": lambda right: right[:, None],
    "short": lambda right: right[:-1],
    "text": lambda right: "text",
    "nothing": lambda right: None,
    "tensor": lambda right: Tensor(right),
}


class Tensor:
    """What torch gives, as far as an error message looks at it."""

    def __init__(self, values):
        self.shape, self.detach = values.shape, None


@pytest.fixture(autouse=True)
def only_here():
    yield
    for family in FAMILIES:
        family.forget(__name__)


def said(e, engine="local", **how):
    with pytest.raises(Mistake) as caught:
        e.run(engine=engine, **how)
    return str(caught.value)


@dataclass(frozen=True)
class Rule(Memoryless):
    gives: str = "float64"

    def combine(self, cohort):
        return OF[self.gives](cohort.updates.mean(axis=0, dtype=float))


DUE = "not float64 of shape (46,)"


@pytest.mark.parametrize(
    ("gives", "told"),
    [
        ("nan", "a direction of numbers that are not finite: 46 NaN of 46, from updates of"),
        ("inf", "a direction of numbers that are not finite: 46 infinite of 46, from updates of"),
        ("list", f"a list of 46 values, {DUE}: write np.array(..., np.float64)"),
        ("float16", f"float16 of shape (46,), {DUE}: write .astype(np.float64)"),
        ("int", f"int64 of shape (46,), {DUE}: write .astype(np.float64)"),
        ("row", f"float64 of shape (1, 46), {DUE}: write .reshape(-1)"),
        ("short", f"float64 of shape (45,), {DUE}"),
        ("text", f"'text', {DUE}"),
        ("nothing", f"nothing (is `return` missing?), {DUE}"),
        ("tensor", f"a Tensor of shape (46,), {DUE}: write .detach().numpy()"),
    ],
)
def test_a_rule(gives, told):
    aggregators.register(Rule)
    assert f"round 0: Rule gave {told}" in said(replace(SMALL, aggregator=Rule(gives)))


def test_a_rule_in_a_later_round_is_named_with_that_round():
    @dataclass(frozen=True)
    class Later(Memoryless):
        def combine(self, cohort):
            seen.append(cohort)
            mean = cohort.updates.mean(axis=0, dtype=float)
            return mean if len(seen) == 1 else mean * np.nan

    seen = []
    aggregators.register(Later)
    assert said(replace(SMALL, aggregator=Later())).startswith("round 1: Later gave a direction")


def test_a_rule_beyond_what_a_device_can_hold():
    @dataclass(frozen=True)
    class Huge(Memoryless):
        def combine(self, cohort):
            return np.full(cohort.updates.shape[1], 1e300)

    aggregators.register(Huge)
    told = "round 0: Huge gave numbers of up to 1e+300, which no device can hold"
    assert told in said(replace(SMALL, aggregator=Huge()))


@dataclass(frozen=True)
class Steps(OptimizerDefaults):
    gives: str = "float64"

    def init(self, dim):
        return ()

    def __call__(self, params, direction, memory):
        return OF[self.gives](params + direction), memory


@pytest.mark.parametrize(
    ("gives", "told"),
    [
        ("nan", "parameters that are not finite: 46 NaN of 46, from parameters of up to 0 and"),
        ("list", f"a list of 46 values, {DUE}"),
        ("float16", f"float16 of shape (46,), {DUE}: write .astype(np.float64)"),
        ("row", f"float64 of shape (1, 46), {DUE}: write .reshape(-1)"),
        ("scalar", DUE),
    ],
)
def test_an_optimizer(gives, told):
    optimizers.register(Steps)
    message = said(replace(SMALL, optimizer=Steps(gives)))
    assert message.startswith("round 0: Steps gave ") and told in message


@pytest.mark.parametrize("part", ["aggregator", "optimizer"])
def test_float32_is_used_as_it_is(part):
    aggregators.register(Rule), optimizers.register(Steps)
    kind = {"aggregator": Rule, "optimizer": Steps}[part]
    params = [replace(SMALL, **{part: kind(g)}).run().params for g in ("float32", "float64")]
    np.testing.assert_allclose(*params, rtol=1e-5)


@dataclass(frozen=True)
class Scores:
    """A linear ranker that gives something else in one of its methods."""

    method: str = "scores"
    gives: str = "float32"
    head = 0

    def init(self, features, rng):
        right = np.zeros(features, np.float32)
        return OF[self.gives](right) if self.method == "init" else right

    def scores(self, params, docs):
        right = docs @ params
        return OF[self.gives](right) if self.method == "scores" else right

    def pullback(self, params, docs, dscores):
        right = dscores @ docs
        return OF[self.gives](right) if self.method == "pullback" else right


@pytest.mark.parametrize("engine", ["local", "debug"])
@pytest.mark.parametrize(
    ("gives", "told"),
    [
        ("nan", r"scores that are not finite: "),
        ("list", r"write np.array(..., np.float32)"),
        ("column", r", 1), not float32 of shape ("),
        ("short", ",), not float32 of shape ("),
        ("bool", "bool of shape ("),
        ("nothing", "nothing (is `return` missing?)"),
        ("tensor", "a Tensor of shape ("),
    ],
)
def test_the_scores_of_a_ranker(gives, told, engine):
    rankers.register(Scores)
    message = said(replace(SMALL, ranker=Scores("scores", gives)), engine)
    assert message.startswith("Scores.scores gave") and told in message  # before the first round


@pytest.mark.parametrize("gives", ["float16", "float64", "int"])
def test_scores_of_any_real_kind_are_accepted(gives):
    rankers.register(Scores)
    result = replace(SMALL, ranker=Scores("scores", gives)).run()
    assert np.isfinite(result.params).all()


@pytest.mark.parametrize(
    ("gives", "told"),
    [
        ("nan", "numbers that are not finite: 46 NaN of 46, from parameters of up to 0 and"),
        (
            "list",
            "a list of 46 values, not float32 of shape (46,): write np.array(..., np.float32",
        ),
        ("column", "float32 of shape (46, 1), not float32 of shape (46,): write .reshape(-1)"),
        ("short", "float32 of shape (45,), not float32 of shape (46,)"),
        ("int", "int64 of shape (46,), not float32 of shape (46,): write .astype(np.float32)"),
    ],
)
def test_the_gradient_of_a_ranker(gives, told):
    rankers.register(Scores)
    message = said(replace(SMALL, ranker=Scores("pullback", gives)))
    assert f"client 0, round 0: Scores.pullback gave {told}" in message


@pytest.mark.parametrize(
    ("gives", "told"),
    [
        ("nan", "parameters that are not finite: 46 NaN of 46"),
        ("list", "a list of 46 values, not float32"),
        ("row", "float32 of shape (1, 46), not float32 of shape (46,): write .reshape(-1)"),
        ("int", "write .astype(np.float32)"),
        ("nothing", "nothing (is `return` missing?)"),
    ],
)
def test_the_first_parameters_of_a_ranker(gives, told):
    rankers.register(Scores)
    message = said(replace(SMALL, ranker=Scores("init", gives)))
    assert message.startswith("Scores.init gave ") and told in message


@dataclass(frozen=True)
class Learns(SendsUpdates):
    gives: str = "float32"
    weight: float = 1.0
    sessions: int = 1

    def learn(self, ranker, params, memory, user, rng, t, send_reward):
        user.session(lambda docs: np.arange(min(10, len(docs))))
        return OF[self.gives](np.ones(len(params), np.float32)), self.weight, memory


@pytest.mark.parametrize(
    ("gives", "told"),
    [
        ("nan", "the update that Learns.learn gave is not finite (46 NaN and 0 infinite of 46"),
        ("inf", "the update that Learns.learn gave is not finite (0 NaN and 46 infinite of 46"),
        ("list", "Learns.learn gave a list of 46 values, not float32 of shape (46,): write"),
        ("row", "Learns.learn gave float32 of shape (1, 46), not float32 of shape (46,): write"),
        ("scalar", "Learns.learn gave 1.0, not float32 of shape (46,)"),
        ("nothing", "Learns.learn gave nothing"),
    ],
)
def test_a_learner(gives, told):
    learners.register(Learns)
    message = said(replace(SMALL, learner=Learns(gives)))
    assert message.startswith("client 0, round 0: ") and told in message
    assert "steps are too large" not in message


def test_directions_that_a_learner_decodes():
    @dataclass(frozen=True)
    class Decodes(LearnerDefaults):
        gives: str = "float32"
        sessions: int = 1
        reward_levels = 3

        def learn(self, ranker, params, memory, user, rng, t, send_reward):
            user.session(lambda docs: np.arange(min(10, len(docs))))
            return np.ones(2, np.float32), 1.0, memory

        def decode(self, payloads, params):
            return OF[self.gives](np.ones((len(payloads), len(params)), np.float32))

    learners.register(Decodes)
    gave = "round 0: Decodes.decode gave "
    for gives, told in {
        "nan": "directions that are not finite: 138 NaN of 138",
        "short": "float32 of shape (2, 46), not float32 of shape (3, 46)",
        "list": "a list of 3 values, not float32 of shape (3, 46)",
    }.items():
        assert f"{gave}{told}" in said(replace(SMALL, learner=Decodes(gives)))


@dataclass(frozen=True)
class Attacks(ChangesMessages):
    gives: str = "float32"

    def craft(self, cohort, malicious, ask, rng):
        if self.gives == "ragged":
            return [[1.0], [1.0, 2.0]]
        if self.gives == "huge":
            return np.full((malicious.sum(), cohort.updates.shape[1]), 1e300)
        return OF[self.gives](cohort.updates[malicious])


@pytest.mark.parametrize(
    ("gives", "told"),
    [
        ("nan", "Attacks sends numbers that are not finite: 46 NaN of 46"),
        ("huge", "Attacks.craft gave numbers of up to 1e+300, beyond float32"),
        ("int", "Attacks.craft gave int64 of shape (1, 46) for 1 malicious clients, not 1 rows"),
        ("short", "Attacks.craft gave float32 of shape (0, 46) for 1 malicious clients"),
        ("ragged", "Attacks.craft gave a list of 2 values for 1 malicious clients"),
        ("nothing", "Attacks.craft gave nothing (is `return` missing?)"),
    ],
)
def test_an_attack(gives, told):
    attacks.register(Attacks)
    message = said(replace(SMALL, attack=Attacks(gives), malicious=1))
    assert message.startswith("round 0: ") and told in message


@pytest.mark.parametrize("gives", ["list", "float64"])
def test_an_attack_may_give_a_list_or_float64(gives):
    attacks.register(Attacks)
    runs = [replace(SMALL, attack=Attacks(g), malicious=1).run() for g in (gives, "float32")]
    assert runs[0].params.tobytes() == runs[1].params.tobytes()


@dataclass(frozen=True)
class Hides(PrivatizerDefaults):
    gives: str = "float32"

    def on_client(self, payload, n, rng):
        return OF[self.gives](payload)

    def events(self, setting):
        return ()

    def nominal(self):
        return "nothing"


@pytest.mark.parametrize("engine", ["local", "debug"])
def test_a_privatizer_on_devices(engine):
    privatizers.register(Hides)
    told = "Hides.on_client gave numbers that are not finite: 46 NaN of 46, from updates of up to"
    assert told in said(replace(SMALL, privacy=Hides("nan")), engine)
    told = "Hides.on_client gave float64 of shape (46,), not float32 of shape (46,)"
    assert told in said(replace(SMALL, privacy=Hides("float64")), engine)


def test_a_privatizer_on_the_server():
    @dataclass(frozen=True)
    class Noise(Hides):
        where: str = "on_server"

        def on_client(self, payload, n, rng):
            return payload

        def on_arrival(self, updates):
            return OF[self.gives](updates) if self.where == "on_arrival" else updates

        def on_server(self, mean, n, rng):
            return OF[self.gives](mean) if self.where == "on_server" else mean

    privatizers.register(Noise)
    for made, told in {
        ("nan", "on_server"): "Noise.on_server gave numbers that are not finite: 46 NaN of 46",
        ("list", "on_server"): "Noise gave a list of 46 values, not float64 of shape (46,)",
        ("short", "on_arrival"): "Noise.on_arrival gave float32 of shape (2, 46), not float32",
    }.items():
        message = said(replace(SMALL, privacy=Noise(*made)))
        assert message.startswith("round 0: ") and told in message


def test_a_channel():
    @dataclass(frozen=True)
    class Carries:
        gives: str = "float64"
        step = 0.0

        def withstands(self, asked):
            return None

        def fewest(self, asked):
            return 1

        def carry(self, cohort, ask, rng):
            if self.gives == "nothing":
                return None
            mean = OF[self.gives](cohort.updates.mean(axis=0))
            return Cohort(np.array([-1]), np.array([mean]), np.array([3.0]))

    channels.register(Carries)
    for gives, told in {
        "nan": "a mean of numbers that are not finite: 46 NaN of 46",
        "short": "float32 of shape (1, 45), not one row, the weighted mean",
        "nothing": "nothing (is `return` missing?), not a Cohort",
    }.items():
        message = said(replace(SMALL, channel=Carries(gives)))
        assert message.startswith(f"round 0: Carries.carry gave {told}")


def test_a_measure():
    @dataclass(frozen=True)
    class Odd(OfflineMeasure):
        def of_lists(self, lists):
            return np.zeros(3)

    @dataclass(frozen=True)
    class Endless(OnlineMeasure):
        def of_round(self, round):
            return float("inf")

    measures.register(Odd), measures.register(Endless)
    assert "Odd gave float64 of shape (3,) for" in said(SMALL, measures=[Odd()])
    assert "Endless.of_round gave inf in round 1" in said(SMALL, measures=[Endless()])


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("engine", ["local", "debug"])
@pytest.mark.parametrize(
    "change",
    [
        {"learner": "PDGD(lr=3e38, sessions=3)", "ranker": "MLP(hidden=2, activation='relu')"},
        {"optimizer": "SGD(lr=1e40)"},
        {"data": "Synthetic(queries=20)", "learner": "PDGD(lr=3e38, sessions=3)"},
    ],
)
def test_steps_that_are_too_large_are_called_that(change, engine):
    """And no component of ours is blamed."""
    with pytest.raises(FloatingPointError, match="not finite"):
        replace(SMALL, **change).run(engine=engine)


@pytest.mark.filterwarnings("ignore:overflow")
def test_a_ranker_whose_parameters_grew_is_not_blamed():
    rankers.register(Scores)
    with pytest.raises(FloatingPointError, match=r"client \d, round \d: .*not finite"):
        replace(SMALL, ranker=Scores(), learner="PDGD(lr=1e38, sessions=3)", rounds=9).run()
