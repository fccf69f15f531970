from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

# how long an example takes says how busy the machine is
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture
def shared() -> Path:
    """Real result files, kept beside the repository because of their licences."""
    if not SHARED.is_dir():
        pytest.skip("the folder of real result files beside the repository is absent")
    return SHARED
