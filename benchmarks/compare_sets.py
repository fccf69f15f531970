"""Cold items, five seeds, offline encoder, all predictors, on the four real sets.

    python -m benchmarks.compare_sets [--work DIR] [SET ...]

Prints one table a set. Bars: on mmlu_pro `jeirt` above `knn` in accuracy and 1 point or more
above the model x subject mean; on zeroeval `jeirt_context` above the model x benchmark mean in
accuracy and log-loss.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.bars import Bars

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
SETS = ("zeroeval", "mmlu_pro", "llmrouter", "alpaca_eval")


def thetascope(*arguments: str) -> str:
    """Runs a command line and returns what it printed."""
    command = [sys.executable, "-m", "thetascope", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def prepared(name: str, work: Path) -> Path:
    """Imports and encodes one set; what is there already is not done again."""
    study = work / name
    work.mkdir(parents=True, exist_ok=True)
    if not (study / "study.json").is_file():
        thetascope("import", str(SHARED / name), "--into", str(study))
    index = json.loads((study / "study.json").read_text("utf-8"))
    if "offline" not in index["derived"].get("vectors", {}):
        thetascope("encode", str(study))
    return study


def compare(name: str, work: Path) -> dict[str, Any]:
    """Compares all predictors on one set."""
    study = prepared(name, work)
    print(thetascope("compare", str(study)), flush=True)
    return json.loads(thetascope("compare", str(study), "--json"))


def whole(table: dict[str, Any], predictor: str) -> dict[str, Any]:
    """The row of a predictor over the whole set."""
    return next(
        r for r in table["rows"]
        if (r["predictor"], r["benchmark"], r["subject"]) == (predictor, "all", "all")
    )  # fmt: skip


def main() -> None:
    """Compares the sets named, or all four."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=Path)
    parser.add_argument("sets", nargs="*")
    given = parser.parse_args()
    if not SHARED.is_dir():
        print("skipped: the folder of real results beside the repository is absent")
        return
    bars = Bars()
    with tempfile.TemporaryDirectory() as scratch:
        work = given.work or Path(scratch)
        work.mkdir(parents=True, exist_ok=True)
        for name in given.sets or SETS:
            print(f"-- {name}", flush=True)
            check(name, compare(name, work), bars)
    bars.finish()


def check(name: str, table: dict[str, Any], bars: Bars) -> None:
    """The bars of a set."""
    if name == "mmlu_pro":
        jeirt, knn = whole(table, "jeirt"), whole(table, "knn")
        subject = whole(table, "model_subject")
        points = 100 * (jeirt["accuracy"] - knn["accuracy"])
        bars.at_least("mmlu_pro: jeirt - knn, accuracy", points, 0, "points")
        points = 100 * (jeirt["accuracy"] - subject["accuracy"])
        bars.at_least("mmlu_pro: jeirt - model x subject, accuracy", points, 1, "points")
    if name == "zeroeval":
        context, mean = whole(table, "jeirt_context"), whole(table, "model_benchmark")
        points = 100 * (context["accuracy"] - mean["accuracy"])
        bars.at_least("zeroeval: jeirt_context - model x benchmark, accuracy", points, 0, "points")
        gain = mean["log_loss"] - context["log_loss"]
        bars.at_least("zeroeval: model x benchmark - jeirt_context, log-loss", gain, 0, "nats")


if __name__ == "__main__":
    main()
