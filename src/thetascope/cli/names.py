"""Models under two names, after an import: what is said, written and how it is applied."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path

from thetascope.errors import InputError
from thetascope.readers import ReadOptions
from thetascope.study import Study, store
from thetascope.study.files import write_aside
from thetascope.study.model_names import Rename, propose_renames, renames_table

_SHOWN = 5


def rename_known(study: Study, renames: Mapping[str, str]) -> tuple[Study, int]:
    """Returns the study with the models in it renamed, and how many they are."""
    models = set(study.models["model"])
    known = {k: v for k, v in renames.items() if k in models and k != v}
    return (study.rename_models(known) if known else study), len(known)


def alike(new: Study, into: Path, renames: Mapping[str, str]) -> list[Rename]:
    """Proposes names of the import that may be models of the study, or of each other.

    Args:
        new: What was read, renamed already.
        into: The study's folder, before the import.
        renames: The crosswalk; a name that it decides on is not proposed.
    """
    known: list[str] = []
    if store.is_study(into):
        known = store.read_table(into, store.read_index(into), "models")["model"].to_list()
    incoming = new.models["model"].to_list()
    names = [renames.get(n, n) for n in known] + incoming
    return [r for r in propose_renames(names, set(incoming)) if r.model not in renames]


def check_free(path: Path) -> None:
    """Raises InputError where no new file can be made; one there may be edited by hand."""
    if path.exists():
        raise InputError("is there already: nothing is overwritten", file=path)
    if not path.absolute().parent.is_dir():
        raise InputError("cannot be written: its folder does not exist", file=path)


def write_proposals(path: Path, proposals: Sequence[Rename]) -> None:
    """Writes a crosswalk to look over: model, canonical, confidence, reason."""
    try:
        write_aside(path, renames_table(proposals).write_csv)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", file=path) from None


def proposal_lines(
    proposals: Sequence[Rename], written: Path | None, command: Sequence[str]
) -> list[str]:
    """The proposals for a person: the first few, and the commands that write and apply them."""
    if not proposals:
        return [] if written is None else [f"names    none look alike: {written} is not written"]
    n = len(proposals)
    lines = [
        f"names    {n:,} {'model seems' if n == 1 else 'models seem'} to have two names;"
        " none was renamed"
    ]
    lines += [f"         {p.line()}" for p in proposals[:_SHOWN]]
    if n > _SHOWN:
        lines.append(f"         and {n - _SHOWN:,} more")
    if written is None:
        lines.append(
            f"         list    {shlex.join([*command, '--propose-crosswalk', 'names.csv'])}"
        )
        written = Path("names.csv")
    else:
        lines.append(f"         {written} lists them: delete the lines that are wrong, then")
    lines.append(f"         rename  {shlex.join([*command, '--crosswalk', str(written)])}")
    return lines


def import_command(source: Path, into: Path, format: str | None, options: ReadOptions) -> list[str]:
    """The words of an import, with every option that is not the default."""
    words = ["thetascope", "import", str(source), "--into", str(into)]
    if format is not None:
        words += ["--format", format]
    default = ReadOptions()
    for field in fields(options):
        value, flag = getattr(options, field.name), "--" + field.name.replace("_", "-")
        if isinstance(value, Mapping):
            for key, name in value.items():
                words += [f"{flag}.{key}", str(name)]
        elif value != getattr(default, field.name):
            words += [flag, f"{value:g}" if isinstance(value, float) else str(value)]
    return words
