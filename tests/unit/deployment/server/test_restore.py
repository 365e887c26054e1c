"""A state that is restored from a backup: checked first, marked, and continued after what nodes
have answered."""

import shutil
import stat
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from old_server import old_backup, old_server
from small_server import one_round, small_server

from foltr.cli.app import app
from foltr.core.errors import Mistake
from foltr.core.system.lock import Claim
from foltr.deployment.keys.roster_file import read_roster, revoke_node
from foltr.deployment.keys.rotation import replace_node, rotate_node
from foltr.deployment.protocol.frames import Welcome
from foltr.deployment.protocol.messages import NewSession
from foltr.deployment.server import continuing, state_folder
from foltr.deployment.server.backup import backup, read_backup, restore, write_backup
from foltr.deployment.server.continuing import LastRounds, ask_last_rounds, check_after, resume
from foltr.deployment.server.state import Forgotten, Plan
from foltr.deployment.server.state_folder import open_state
from foltr.deployment.settings import read_server
from foltr.experiment.user_files import Code


@pytest.fixture
def server(tmp_path):
    """Settings, state, and a backup after round 5; the server has made 3 rounds since."""
    file, state = small_server(tmp_path / "here")
    path = backup(file, Code(), tmp_path / "b.tar")
    for t in range(5, 8):
        one_round(state, t)
    return file, state, path


def put_back(server, told=None):
    file, _, path = server
    lines = [] if told is None else told
    return restore(path, file, Code(), lines.append)


def again(server):
    """The state, as a server that is started opens it."""
    return open_state(server[1].folder, print)


def lost(server):
    server[1].close()
    shutil.rmtree(server[1].folder)


def contents(folder):
    return {f.relative_to(folder): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def test_the_state_is_as_it_was(server):
    file, before, _ = server
    lost(server)
    told = []
    assert put_back(server, told).round == 5 and not told
    state = again(server)
    assert state.load().t == 5 and len(state.rounds()) == 5 and state.models()[-1] == 5
    assert (state.restored.round, state.restored.backup) == (5, str(server[2]))
    assert stat.S_IMODE(before.folder.stat().st_mode) == 0o700
    state.check_roster(read_roster(file.parent / "roster.toml"))
    state.check_agreement(read_server(file, Code())[0])


def test_the_saved_model_is_restored_too(server, tmp_path):
    file, state, _ = server
    ranker = state.save_ranker(read_server(file, Code())[0], np.ones(3))
    content = ranker.read_bytes()
    path = backup(file, Code(), tmp_path / "with.tar")
    lost(server)
    restore(path, file, Code())
    assert ranker.read_bytes() == content


def test_a_backup_of_an_earlier_foltr_is_restored(tmp_path):
    file, folder = old_server(tmp_path / "old")
    path = old_backup(file, folder, tmp_path / "old.tar")
    shutil.rmtree(folder)
    assert restore(path, file, Code()).round == 5
    state = open_state(folder, print)
    assert state.load().t == 5 and state.forgotten.nodes == ("b",) and state.restored.round == 5
    assert state.models() == [0, 1, 2, 3, 4, 5] and state.contributors().tolist() == [0, 1, 2]
    assert {each.name for each in folder.iterdir()} >= {"state.db"}
    assert not (folder / "agreement.json").exists()


@pytest.mark.parametrize("name", ["checkpoint.npz", "forgotten.json"])
def test_a_backup_of_an_earlier_foltr_that_cannot_be_read(tmp_path, name):
    file, folder = old_server(tmp_path / "old")
    (folder / name).write_bytes(b"nonsense")
    path = old_backup(file, folder, tmp_path / "old.tar")
    shutil.rmtree(folder)
    with pytest.raises(Mistake, match=f"old.tar: {name} cannot be read"):
        restore(path, file, Code())
    assert not folder.exists()


def test_a_backup_whose_state_is_damaged(server, tmp_path):
    file, _, path = server
    about, files = read_backup(path)
    lost(server)
    for number, content in enumerate((b"no SQLite", files["state.db"][:5_000])):
        bad = tmp_path / f"bad-{number}.tar"
        write_backup(bad, about, {**files, "state.db": content})
        with pytest.raises(Mistake, match=r"is no backup, or is damaged|is of another federation"):
            restore(bad, file, Code())
    assert not server[1].folder.exists()


def test_an_empty_folder_and_a_missing_one_are_filled(server):
    lost(server)
    server[1].folder.mkdir(mode=0o755)
    put_back(server)
    assert stat.S_IMODE(server[1].folder.stat().st_mode) == 0o700


def test_a_state_that_is_there_is_not_touched(server):
    before = contents(server[1].folder)
    with pytest.raises(Mistake, match="is not empty: move its files away"):
        put_back(server)
    assert contents(server[1].folder) == before


def test_a_server_that_runs_is_not_touched(server):
    lost(server)
    server[1].folder.mkdir()
    with Claim(server[1].folder).held(wait=False):
        with pytest.raises(Mistake, match="another process uses"):
            put_back(server)


def test_a_backup_of_another_federation(server):
    file, state, _ = server
    lost(server)
    file.write_text(file.read_text().replace("rounds = 20", "rounds = 30"))
    with pytest.raises(Mistake, match="is of another federation: rounds is 30 in the settings"):
        put_back(server)
    assert not state.folder.exists()


def test_a_damaged_backup_writes_nothing(server):
    _, state, path = server
    lost(server)
    path.write_bytes(path.read_bytes()[:-9_000])
    with pytest.raises(Mistake, match="is damaged"):
        put_back(server)
    assert not state.folder.exists()


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_a_restore_that_fails_leaves_an_empty_folder(server, monkeypatch, error):
    _, state, _ = server
    lost(server)

    def write(*given):
        raise error

    monkeypatch.setattr(state_folder, "write_whole", write)
    with pytest.raises((KeyboardInterrupt, OSError)):
        put_back(server)
    assert list(state.folder.iterdir()) == []
    monkeypatch.undo()
    put_back(server)


def test_a_roster_that_cannot_be_written_restores_nothing(server):
    file, state, _ = server
    lost(server)
    (file.parent / "roster.toml").unlink()
    file.write_text(file.read_text().replace("roster.toml", "rosters/roster.toml"))
    with pytest.raises(Mistake, match=r"cannot write .*rosters"):
        put_back(server)
    assert list(state.folder.iterdir()) == []
    (file.parent / "rosters").mkdir()
    put_back(server)
    again(server).check_roster(read_roster(file.parent / "rosters" / "roster.toml"))


def test_the_folder_of_somebody_else_keeps_its_mode(server):
    lost(server)
    server[1].folder.mkdir(mode=0o755)
    (server[1].folder / "photo.png").write_bytes(b"")
    with pytest.raises(Mistake, match="is not empty"):
        put_back(server)
    assert stat.S_IMODE(server[1].folder.stat().st_mode) == 0o755
    assert [each.name for each in server[1].folder.iterdir()] == ["photo.png"]


# ---- the roster


def test_a_roster_that_is_lost_is_restored_and_that_is_told(server):
    file, _, _ = server
    lost(server)
    roster, told = file.parent / "roster.toml", []
    kept = roster.read_bytes()
    roster.unlink()
    put_back(server, told)
    assert roster.read_bytes() == kept and "revoked or forgotten since then" in told[0]


def test_a_roster_that_is_there_is_kept(server):
    file, _, _ = server
    roster, told = file.parent / "roster.toml", []
    _, card = rotate_node(file.parent / "a")
    replace_node(roster, card, drop_old=True)
    lost(server)
    kept = roster.read_bytes()
    put_back(server, told)
    assert roster.read_bytes() == kept and not told
    again(server).check_roster(read_roster(roster))  # the replaced key fits the restored state


def test_a_node_that_was_forgotten_since_is_told(server):
    file, _, _ = server
    roster, told = file.parent / "roster.toml", []
    revoke_node(roster, "a")
    revoke_node(roster, "b", forgotten=True)
    lost(server)
    put_back(server, told)
    assert "a was revoked after this backup" in told[0] and "--forget a" in told[0]
    assert "b was forgotten after this backup" in told[1] and "forgets it again" in told[1]


def test_a_node_that_was_forgotten_before_is_not_told(server, tmp_path):
    file, state, _ = server
    revoke_node(file.parent / "roster.toml", "b", forgotten=True)
    state.set_forgotten(Forgotten(nodes=("b",), since=3))
    later, told = backup(file, Code(), tmp_path / "later.tar"), []
    lost(server)
    restore(later, file, Code(), told.append)
    assert not told


def test_another_roster_is_refused(server):
    file, state, _ = server
    text = (file.parent / "roster.toml").read_text()
    lost(server)
    (file.parent / "roster.toml").write_text(text.replace("clients = 2", "clients = 3", 1))
    with pytest.raises(Mistake, match="does not fit the roster in"):
        put_back(server)
    assert not state.folder.exists()


# ---- continuing


def restored(server):
    lost(server)
    put_back(server)
    return again(server)


def go_on(state, after, **said):
    """What a server of 20 agreed rounds does, whose nodes say their last rounds."""
    told = []
    check_after(state, after, 20)
    engine = SimpleNamespace(
        state=state, agreement=SimpleNamespace(rounds=20), note=told.append, said=said
    )
    return resume(engine, after, "CMD "), told


@pytest.fixture(autouse=True)
def _said(monkeypatch):
    monkeypatch.setattr(continuing, "ask_last_rounds", lambda of: LastRounds(of.said))


def test_no_node_has_answered_since(server):
    state = restored(server)
    found, told = go_on(state, None, a=5, b=3)
    assert found.t == state.load().t == 5 and state.restored is None and len(told) == 2
    found, told = go_on(state, None, a=9)  # later, nobody is asked
    assert found.t == 5 and not told


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"a": 8, "b": 8}, "a 8, b 8. If this is right, continue after the last one: CMD 8"),
        ({"a": 6, "b": 0}, "a 6, b 0. Only a names a round after 5"),
        ({"a": 5, "b": None}, "a 5; not known of b. If"),
        ({"a": None, "b": None}, "none; not known of a, b. If"),
    ],
)
def test_the_operator_decides_if_nodes_have_answered(server, said, told):
    state = restored(server)
    with pytest.raises(Mistake) as refused:
        go_on(state, None, **said)
    assert told in str(refused.value) and "after round 5, made 2" in str(refused.value)
    assert state.load().t == 5 and state.restored is not None  # nothing has changed


def test_a_single_liar_is_named_and_impossible_rounds_are_not_believed(server):
    state = restored(server)
    with pytest.raises(Mistake, match=r"Only b names a round after 8: ask its operator.*CMD 19"):
        go_on(state, None, a=8, b=19)
    with pytest.raises(Mistake, match=r"b says 99, and only 20 are agreed.*CMD 8$"):
        go_on(state, None, a=8, b=99)


def test_after_the_operators_choice(server):
    state = restored(server)
    for wrong in (4, 21, -1):
        with pytest.raises(Mistake, match=r"expected 5 \(the backup\) to 20 \(the agreed rounds"):
            go_on(state, wrong)
    found, told = go_on(state, 8)
    assert found.t == state.load().t == 8 and "continuing after round 8" in told[-1]
    assert state.load().params.tolist() == state.model(5).tolist()
    with pytest.raises(Mistake, match="was not restored from a backup: leave --continue-after"):
        check_after(state, 9, 20)
    check_after(state, 8, 20)  # the same command again


PLAN = Plan(nodes=("b",), first=5, stored=(0, 2, 4), sessions=1)


@pytest.mark.parametrize(
    ("first", "erased", "after", "then", "stored"),
    [
        (5, False, 8, 8, [0, 2, 4]),  # it had not begun
        (6, False, 8, 9, [0, 2, 4]),  # the next round was left out
        (4, True, 8, 7, [0, 2, 4]),  # one of its rounds was done: the others follow
        (5, False, 18, 18, [0, 2]),  # as many as the agreed rounds allow
        (5, False, 20, 20, []),
        (5, False, None, 5, [0, 2, 4]),  # nobody has answered since
    ],
)
def test_an_unlearning_that_had_begun_goes_on_later(server, first, erased, after, then, stored):
    """Its rounds have numbers of their own, which move with the others."""
    state = restored(server)
    plan = replace(PLAN, first=first, erased=erased)
    state.set_forgotten(Forgotten(pending=("b",), since=first, plan=plan))
    found, _ = go_on(state, after, a=5, b=5)
    about = state.forgotten
    assert found.t == (5 if after is None else after) and about.since == then
    assert about.plan == replace(plan, first=then, stored=tuple(stored))


def test_a_crash_in_the_middle_of_continuing(server, monkeypatch):
    """Nothing has changed then."""
    state = restored(server)
    state.set_forgotten(Forgotten(pending=("b",), since=5, plan=PLAN))
    for name in ("set_forgotten", "save", "delete_about"):
        with monkeypatch.context() as patched:
            patched.setattr(type(state), name, killed)
            with pytest.raises(KeyboardInterrupt):
                go_on(state, 8)
        assert state.load().t == 5 and state.forgotten.plan == PLAN and state.restored.round == 5
    found, _ = go_on(state, 8)
    assert found.t == state.load().t == 8 and state.forgotten.plan.first == 8
    assert state.restored is None


def killed(*_):
    raise KeyboardInterrupt


# ---- the nodes' last rounds


class Engine:
    """Nodes that answer a HELLO, each with its last round; None is an older node. `live` is the
    roster."""

    def __init__(self, lasts, *names, failures=0):
        self.lasts, self.failures = lasts, failures
        self.greeted, self.refused, self.welcomes = {1, 2}, {}, {}
        known = {i + 1: name for i, name in enumerate(names)}

        class Live(SimpleNamespace):
            def __call__(self):
                return self

        active = [SimpleNamespace(name=name) for name in names]
        self.live = Live(active=active, name_of=lambda node: known.get(node, f"node {node}"))

    def agreeing(self):
        assert not self.greeted
        if self.failures:
            self.failures -= 1
            raise NewSession("lost")
        self.welcomes |= {node: Welcome(answered=last) for node, last in self.lasts.items()}
        self.greeted |= self.lasts.keys()
        return dict.fromkeys(self.greeted, range(1))


@pytest.mark.parametrize("failures", [0, 2])
def test_nodes_are_asked_for_their_last_round(failures):
    said = ask_last_rounds(Engine({1: 7, 2: None, 9: 50}, "a", "b", "c", failures=failures))
    assert said.nodes == {"a": 7, "b": None, "c": None} and not said.is_complete
    assert ask_last_rounds(Engine({1: 7, 2: 1}, "a", "b")).is_complete


def test_a_superlink_that_loses_every_session():
    with pytest.raises(Mistake, match="loses every session"):
        ask_last_rounds(Engine({}, "a", failures=99))


def test_the_command(server):
    file, _, path = server
    done = CliRunner().invoke(app, ["restore", str(path), str(file)])
    assert done.exit_code == 2 and "is not empty" in done.stderr
    lost(server)
    done = CliRunner().invoke(app, ["restore", str(path), str(file)])
    assert done.exit_code == 0 and "restored the state after round 5" in done.stdout
    assert f"next: foltr serve {file}" in done.stdout
    swapped = CliRunner().invoke(app, ["restore", str(file), str(path)])
    assert swapped.exit_code == 2 and swapped.stderr.count("\n") == 1
    assert again(server).restored.round == 5
