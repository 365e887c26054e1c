"""foltr with another version of the protocol: `python -m next_version COMMAND FILE.toml`, with
COMMAND serve, node or gateway. The environment says which: FOLTR_PROTOCOL="VERSION OLDEST"."""

import importlib.util
import os
import re
import sys


def with_versions(version, oldest):
    """Load the module of frames with other numbers, before anybody imports it."""
    found = importlib.util.find_spec("foltr.deployment.protocol.frames")
    text = found.loader.get_source(found.name)
    text, first = re.subn(r'(MAGIC, VERSION = b"fF", )\d+', rf"\g<1>{version}", text)
    text, second = re.subn(r"^OLDEST = \d+", f"OLDEST = {oldest}", text, flags=re.M)
    assert first == second == 1
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module
    exec(compile(text, found.origin, "exec"), module.__dict__)
    import foltr.deployment

    foltr.deployment.protocol.frames = module


if __name__ == "__main__":
    with_versions(*map(int, os.environ["FOLTR_PROTOCOL"].split()))
    from foltr.cli.app import main

    sys.argv[0] = "foltr"
    sys.exit(main())
