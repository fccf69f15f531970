"""Cold items and warm cells, five seeds, offline encoder, on the four real sets.

    python -m benchmarks.compare_sets [--work DIR] [--split cold-items|warm-cells] [SET ...]

Prints one table a set. Bars: the paired interval of a rival's log-loss minus that of `blend`
does not reach below -0.002 (RULES' "no worse"): on cold items for every mean, neighbour, ridge
and EmbedLLM, on warm cells for 1PL, 2PL and MIRT. On mmlu_pro `blend` is 0.5 points or more
above `jeirt`. Of the parts: on mmlu_pro `jeirt` above `knn` in accuracy and 1 point or more
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
KNOWN = ("irt_1pl", "irt_2pl", "mirt")
RIVALS = ("model_mean", "model_benchmark", "model_subject", "knn", "knn_weighted", "ridge",
          "embedllm")  # fmt: skip
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


def compare(name: str, work: Path, split: str) -> dict[str, Any]:
    """Compares predictors on one set: all on cold items, those of known items on warm cells."""
    study = prepared(name, work)
    command = ["compare", str(study), "--split", split, "--reference", "blend"]
    if split == "warm-cells":
        command += ["--predictors", "blend", *KNOWN, "mirt_text"]
    print(thetascope(*command), flush=True)
    return json.loads(thetascope(*command, "--json"))


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
    parser.add_argument("--split", choices=("cold-items", "warm-cells"))
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
            for split in [given.split] if given.split else ["cold-items", "warm-cells"]:
                print(f"-- {name}, {split}", flush=True)
                table = compare(name, work, split)
                no_worse(name, table, RIVALS if split == "cold-items" else KNOWN, bars)
                if split == "cold-items":
                    check(name, table, bars)
    bars.finish()


def no_worse(name: str, table: dict[str, Any], rivals: tuple[str, ...], bars: Bars) -> None:
    """The blend against each rival that ran."""
    ran = {r["predictor"] for r in table["rows"]}
    for rival in rivals:
        if rival in ran:
            low = whole(table, rival)["difference"]["log_loss_low"]
            bars.at_least(f"{name}: {rival} - blend, log-loss, lower end", low, -0.002, "nats")


def check(name: str, table: dict[str, Any], bars: Bars) -> None:
    """The bars of a set."""
    if name == "mmlu_pro":
        jeirt, knn = whole(table, "jeirt"), whole(table, "knn")
        subject = whole(table, "model_subject")
        points = 100 * (whole(table, "blend")["accuracy"] - jeirt["accuracy"])
        bars.at_least("mmlu_pro: blend - jeirt, accuracy", points, 0.5, "points")
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
