"""What `foltr simulate-devices` says about mistakes in its settings."""

import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from foltr.core.errors import Mistake
from foltr.deployment.gateway.simulated_devices import run
from foltr.deployment.keys.keys import make_server
from foltr.experiment.user_files import Code

SETTINGS = """
features = 46
asked = 3
rounds = 5
{agreed}
[devices]
gateway = "{gateway}"
devices = 2
population = 3
data = "Synthetic(queries=10)"
{more}
"""


def told(folder, gateway="https://localhost:1", more="", agreed=""):
    file = folder / "devices.toml"
    file.write_text(SETTINGS.format(gateway=gateway, more=more, agreed=agreed))
    with pytest.raises(Mistake) as mistake:
        run(file, Code(()), lambda text: None)
    return str(mistake.value)


@pytest.mark.parametrize("gateway", ["localhost:8445", "ftp://localhost:1", "https://a.org/x"])
def test_an_address_that_is_no_gateway(tmp_path, gateway):
    assert "is no gateway: give https://HOST:PORT" in told(tmp_path, gateway)


def test_plain_http_is_for_this_machine(tmp_path):
    assert "http is for tests on this machine" in told(tmp_path, "http://gateway.example:1")


def test_signed_sums_need_pinned_keys(tmp_path):
    agreed = 'channel = "SecureSum(consistency=True)"'
    assert "needs device_keys" in told(tmp_path, agreed=agreed)
    assert "roster needs device_keys" in told(tmp_path, more='roster = "r.toml"')


def test_a_wrong_authority_is_told(tmp_path):
    import asyncio
    import ssl
    import threading

    for name in ("right", "wrong"):
        make_server(tmp_path / name, ["localhost"])
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "right/server.pem", tmp_path / "right/server.key")
    loop = asyncio.new_event_loop()

    async def listen():
        return await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=context)

    server = loop.run_until_complete(listen())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        port = server.sockets[0].getsockname()[1]
        said = told(tmp_path, f"https://localhost:{port}", 'ca = "wrong/ca.pem"')
        assert "is the file of its authority right?" in said
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
