"""`import cupy` in a process of its own, with this folder on PYTHONPATH: the fake one (../fake_cupy.py)."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from launcher.fake_cupy import CUDARuntimeError, Fake

fake = Fake()
#: After so many launches the device is lost.
if lost_after := os.environ.get("TOKSEAM_TEST_LOST_AFTER"):
    fake.fail("graph_launch", CUDARuntimeError(719), int(lost_after), for_good=True)
globals().update(vars(fake.module))
