"""Specs: parsed, never evaluated; checked and coerced by annotation; typos answered."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr.core import Aggregator, Cohort
from foltr.errors import Mistake
from foltr.experiment import Experiment
from foltr.kinds import Memoryless
from foltr.learners.pdgd import PDGD
from foltr.optimizers.adam import Adam
from foltr.rankers.mlp import MLP
from foltr.spec import aggregators, brief, click_models, learners, optimizers, rankers
from foltr.users.cascade import Cascade


def test_equal_objects_have_equal_reprs():
    assert PDGD(lr=1) == PDGD(lr=1.0)
    assert repr(PDGD(lr=1)) == repr(PDGD(lr=1.0))
    custom = Cascade(kind="custom", click=[0, 1], stop=[0, 0])  # type: ignore[arg-type]
    assert custom.click == (0.0, 1.0)
    assert repr(custom) == repr(Cascade(kind="custom", click=(0.0, 1.0), stop=(0.0, 0.0)))


def test_a_bare_name_is_a_spec():
    assert learners.build("PDGD") == PDGD() == learners.build(" PDGD( ) ")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("PGD()", "did you mean 'PDGD'"),
        ("PDGD(lrr=1)", "PDGD has no field 'lrr': did you mean 'lr'"),
        ("PDGD(0.1)", "give fields by name"),
        ("PDGD(lr='fast')", "PDGD.lr: expected float, got 'fast'"),
        ("PDGD(lr=True)", "expected float, got True"),
        ("PDGD(lr=1e999)", "not a finite number"),
        ("PDGD(sessions=2.5)", "PDGD.sessions: expected int, got 2.5"),
        ("PDGD(pairs='some')", "'some' is none of 'examined', 'shown'"),
        ("PDGD(lr=0.1, lr=0.2)", "give each field once"),
        ("PDGD(**{})", "give each field once, by name"),
        ("PDGD(lr=__import__('os'))", "is not a plain value"),
        ("PDGD(lr=1+1)", "is not a plain value"),
        ("PDGD(lr=nan)", "PDGD.lr: nan is not a plain value"),
        ("PDGD(pairs=shown)", "text needs quotes: 'shown'"),
        ("FPDGD()", "it is PDGD with more than one client"),
        ("pdgd", "did you mean 'PDGD'"),
        ("PDGD(lr=-0.1)", "lr must be > 0, got -0.1"),
        ("PDGD(sessions=0)", "sessions must be in 1 .. 10^9, got 0"),
        ("__import__('os').system('x')", "not a learner"),
        ("PDGD(", "not a learner"),
        ("lambda: 1", "not a learner"),
        ("", "not a learner"),
        ("PDGD\0", "not a learner"),
        ("(" * 5000, "not a learner"),
    ],
)
def test_what_is_wrong_is_told(spec, message):
    with pytest.raises(Mistake) as told:
        learners.build(spec)
    assert message in str(told.value)


def test_impossible_settings_are_refused():
    for make in (
        lambda: MLP(hidden=0),
        lambda: Adam(b1=1.0),
        lambda: Cascade(kind="custom"),
        lambda: Cascade(kind="custom", click=(0.0, 1.5), stop=(0.0, 0.0)),
        lambda: Cascade(kind="perfect", click=(0.0, 1.0), stop=(0.0, 0.0)),
        lambda: Experiment(clients=0),
        lambda: Experiment(participation=0.0),
        lambda: Experiment(rounds=0),
        lambda: Experiment(seed=-1),
        lambda: Experiment(users=PDGD()),
    ):
        with pytest.raises(Mistake):
            make()


def test_a_click_model_must_fit_the_grades():
    with pytest.raises(Mistake, match="grades"):
        Cascade().tables(4, 10)


@dataclass(frozen=True)
class Twice(Memoryless):
    """Runs another rule."""

    rule: Aggregator
    times: int = 2

    def combine(self, cohort: Cohort):
        return self.times * self.rule(cohort, (), None)[0]


def test_families_nest_and_copies_are_checked():
    aggregators.register(Twice)
    try:
        built = aggregators.build("Twice(rule=Twice(rule=Mean()))")
        assert repr(built) == "Twice(rule=Twice(rule=Mean(), times=2), times=2)"
        assert aggregators.build(repr(built)) == built
        assert brief(built) == "Twice(rule=Twice(rule=Mean()))"
        with pytest.raises(Mistake, match="did you mean 'Mean'"):
            aggregators.build("Twice(rule=Maen())")
        with pytest.raises(Mistake):
            aggregators.build("Twice(rule=3)")
        with pytest.raises(Mistake, match="times"):
            replace(built, times="x")
    finally:
        aggregators.forget(__name__)


def test_experiments_take_specs_as_text():
    e = Experiment(learner="PDGD(lr=1)", clients=3)  # type: ignore[arg-type]
    assert e.learner == PDGD(lr=1.0)
    assert Experiment(**e.config()) == e


finite = st.floats(1e-6, 1e6)


@given(lr=finite, sessions=st.integers(1, 100), norm=st.none() | finite, mu=finite, explore=st.booleans())
def test_any_learner_round_trips(lr, sessions, norm, mu, explore):
    thing = PDGD(lr=lr, sessions=sessions, max_norm=norm, mu=mu, explore=explore)
    assert learners.build(repr(thing)) == thing


@given(st.text())
def test_any_text_is_a_component_or_a_mistake(text):
    for family in (learners, rankers, click_models, optimizers):
        try:
            family.build(text)
        except Mistake:
            pass
