"""Commands that read or change the state of a gateway, even while it runs: `foltr gateway FILE
--invite`, `--withdraw`, `--revoke`, `--devices` and `--keys`."""

from __future__ import annotations

import time
from pathlib import Path

from foltr.errors import require
from foltr.federated.agreement import Agreement
from foltr.federated.device_keys import device_keys_text
from foltr.gateway.enrolment import Enrolment, Standing
from foltr.runs.user_files import Code
from foltr.serving.settings import GatewayTable, beside, read_gateway

DATABASE = "gateway.db"
EVERY = "all"  # invitations


def state_of(file: Path, agreed: Agreement, table: GatewayTable) -> Enrolment:
    """The state of the gateway with this settings file."""
    state = beside(file, table.state)
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    return Enrolment(state / DATABASE, agreed.id)


def make_invitations(file: Path, code: Code, devices: int, each: int, days: float) -> list[str]:
    """Make invitations for this many devices in total. Each is valid for `each` devices."""
    agreed, table = read_gateway(file, code)
    require(devices >= 1, f"--invite {devices}: expected at least one device")
    require(1 <= each <= devices, f"--each {each}: expected 1 to {devices}")
    enrolment = state_of(file, agreed, table)
    now = time.time()
    sizes = [each] * (devices // each) + ([devices % each] if devices % each else [])
    return [enrolment.invite(size, days, now) for size in sizes]


def withdraw_invitation(file: Path, code: Code, token: str) -> int:
    """Make an invitation invalid; "all" for all of them. Returns for how many more devices it was
    valid."""
    agreed, table = read_gateway(file, code)
    named = None if token == EVERY else token
    return state_of(file, agreed, table).withdraw(named, time.time())


def revoke_device(file: Path, code: Code, client: int) -> str:
    """Exclude the device with this client number. Returns how its owner could enrol again, or
    ""."""
    agreed, table = read_gateway(file, code)
    enrolment = state_of(file, agreed, table)
    enrolment.revoke(client)
    places = enrolment.places_left(client, time.time())
    again = "its owner can enrol again with another key"
    if table.open_enrolment:
        return f"{again}: enrolment is open"
    if places:
        return f"{again}: its invitation is valid for {places:,} more (--withdraw)"
    return ""


def device_keys(file: Path, code: Code) -> str:
    """The lines of a file of device keys (`federated/device_keys.py`), for all active devices."""
    agreed, table = read_gateway(file, code)
    devices = state_of(file, agreed, table).devices().values()
    return device_keys_text({d.client: d.key for d in devices if d.standing == Standing.ACTIVE})


def count_devices(file: Path, code: Code) -> tuple[dict[str, int], tuple[int, int]]:
    """The number of devices by state; the number of valid invitations, and of devices that can
    still enrol with them."""
    agreed, table = read_gateway(file, code)
    enrolment = state_of(file, agreed, table)
    found: dict[str, int] = {}
    for device in enrolment.devices().values():
        found[device.standing] = found.get(device.standing, 0) + 1
    return found, enrolment.invitations(time.time())
