"""`made_runs` is imported by the tests in the folders below as well."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
