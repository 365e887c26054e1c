"""Signed sums with pinned keys of devices, with real processes: devices behind a gateway, and a
node that is none."""

import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from behind_gateways import deployed, experiment, same

from foltr.deployment.gateway.process import device_keys
from foltr.experiment.user_files import Code

pytestmark = [pytest.mark.faults, pytest.mark.usefixtures("modules")]


def listed(here, i):
    return device_keys(here.folder / f"gateway-{i}.toml", Code(()))


def pinned_federation(tmp_path, gateways):
    """Twelve clients of two nodes, of which the first ones are gateways. All devices have
    enrolled; nobody has a key of a device yet."""
    e = experiment(clients=12, rounds=3, channel="SecureSum(consistency=True)")
    here = deployed(tmp_path, e, 2, device_keys="devices.keys")
    for name in ("node-1", "devices-0", "devices-1"):
        here.change(name, device_keys="devices.keys", roster="roster.toml")
    (here.folder / "devices.keys").write_text("")
    here.start("server")
    here.wait_logged("server", "nodes connect to")
    for i in range(2):
        for name in (f"gateway-{i}", f"devices-{i}") if i < gateways else (f"node-{i}",):
            here.start(name)
    for i in range(gateways):
        here.wait_enrolled(i, 6)
    return here, e


@pytest.mark.parametrize("gateways", [1, 2])
def test_devices_and_a_node_sum_with_pinned_keys(tmp_path, gateways):
    here, e = pinned_federation(tmp_path, gateways)
    with here:
        lines = "".join(listed(here, i) for i in range(gateways))
        (here.folder / "devices.keys").write_text(lines)  # read again by everybody
        here.wait_done()
        assert here.answered() == [12] * 3, here.everything()
        same(here, e.run().params)


def test_nobody_sums_with_a_device_whose_key_is_not_pinned(tmp_path):
    """The server would: it has another file than the devices."""
    here, _ = pinned_federation(tmp_path, 1)
    with here:
        here.kill("server", 15)
        lines = listed(here, 0).splitlines()
        (here.folder / "all.keys").write_text("\n".join(lines) + "\n")
        (here.folder / "devices.keys").write_text("\n".join(lines[:-1]) + "\n")
        here.change("server", device_keys="all.keys")
        here.start("server")
        here.wait(lambda: "no valid key" in here.log("server"), 60, "a refusal")
        here.wait_round(1)
        here.kill("server", 15)
        assert not any(here.answered()), here.everything()
