"""Runs the measurements named, or all, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys

ALL = (
    "jeirt_epoch",
    "jeirt_large",
    "import_csv",
    "import_log",
    "import_memory",
    "inspect_rate",
    "kills",
    "compare_sets",
    "irt_speed",
    "ablation",
    "million",
    "fuzz",
    "onboarding",
    "adaptive",
    "decide_speed",
    "routing",
    "route_service",
    "space",
    "concepts_training",
    "concepts_extract",
    "concepts_kills",
    "gaps",
    "concept_profiles",
    "explorer_page",
)


def main(arguments: list[str]) -> int:
    """Returns 1 where a measurement missed its bar or failed; options go to those named."""
    first = next((i for i, a in enumerate(arguments) if a.startswith("-")), len(arguments))
    names, options = arguments[:first], arguments[first:]
    unknown = [n for n in names if n not in ALL]
    if unknown:
        print(f"no benchmark {unknown[0]!r}; there are {', '.join(ALL)}", file=sys.stderr)
        return 2
    failed: list[str] = []
    for name in names or ALL:
        print(f"== {name}", flush=True)
        if subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *options]).returncode:
            failed.append(name)
    print(f"missed: {', '.join(failed)}" if failed else "all bars met")
    return 1 if failed else 0


sys.exit(main(sys.argv[1:]))
