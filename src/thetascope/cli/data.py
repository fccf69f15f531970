"""Commands about data: import, doctor, encode, attach-texts, export."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import numpy as np
from cyclopts import Parameter
from numpy.typing import NDArray

from thetascope.cli import names
from thetascope.cli.output import print_json, progress, say
from thetascope.encoders import EncoderConfig, encode_study, import_vectors
from thetascope.errors import InputError
from thetascope.readers import ReadOptions, read, read_crosswalk, read_texts
from thetascope.study import RunPolicy, Study, store
from thetascope.study import doctor as checks

_DEFAULT_OPTIONS = ReadOptions()
_DEFAULT_ENCODER = EncoderConfig()
_MARKS = {"ok": "ok  ", "note": "note", "warning": "LOOK", "error": "BAD "}


def import_(
    source: Path,
    /,
    *,
    into: Path,
    format: str | None = None,
    crosswalk: Path | None = None,
    propose_crosswalk: Path | None = None,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    options: Annotated[ReadOptions, Parameter(name="*")] = _DEFAULT_OPTIONS,
    wait: float = 10.0,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Read evaluation results from a file or folder into a study.

    A study that is there already gets the new results added: next week's run is as safe as
    the first import.

    Parameters
    ----------
    source
        A file, or a folder whose files are looked through.
    into
        The study's folder; made if there is none.
    format
        Name of the format; found by looking at the files where it is not given.
    crosswalk
        CSV with columns model and canonical: models to rename, in the source and the study.
    propose_crosswalk
        CSV to write: names that seem to be of one model, to look over and give as --crosswalk.
    dry_run
        Read and report, write nothing.
    wait
        Seconds to wait for another writer.
    json
        Print the report as one JSON object.
    """
    if propose_crosswalk is not None:
        names.check_free(propose_crosswalk)
    renames = {} if crosswalk is None else read_crosswalk(crosswalk)
    study = read(source, format=format, options=options)
    report = study.report
    if crosswalk is not None:
        study, n = names.rename_known(study, renames)
        report.note(f"crosswalk: {n} models renamed")
    alike = names.alike(study, into, renames)
    if not dry_run:
        study = _add(study, into, options, renames, wait)
    if propose_crosswalk is not None and alike:
        names.write_proposals(propose_crosswalk, alike)
    if json:
        print_json({"import": report.to_json(), "study": _counts(study),
                    "alike": [r.to_json() for r in alike]})  # fmt: skip
        return 0
    say(*report.lines())
    say(f"{'would be' if dry_run else 'study'}    {_described(study)}" + f" in {into}")
    command = names.import_command(source, into, format, options)
    say(*names.proposal_lines(alike, propose_crosswalk, command))
    return 0


def _add(
    new: Study, into: Path, options: ReadOptions, renames: Mapping[str, str], wait: float
) -> Study:
    with store.writing(into, wait) as writer:
        if store.is_study(into):
            policy = _policy(writer.index.policy, options)
            there, n = names.rename_known(Study.open(into), renames)
            if n:
                new.report.note(f"crosswalk: {n} models of the study renamed")
                there.pairs(policy)  # one model now, it may have two runs of an item
            new = there.merge(new, policy=policy)
        before = dict(writer.index.tables), writer.index.policy
        new.write(writer)
        if before == (writer.index.tables, writer.index.policy):
            new.report.note("nothing new: these runs are already in the study")
        else:
            writer.index.imports.append(new.report.to_json())
            writer.commit()
    return new


def _policy(known: str, options: ReadOptions) -> RunPolicy:
    """The policy named with this import, else the one that the study has."""
    from thetascope.study.policies import check_policy

    return check_policy(known if options.on_duplicate == "error" else options.on_duplicate)


def doctor(
    study: Path,
    /,
    *,
    clean: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Look a study over: duplicates, suspect items, stale folders, and what each means.

    Parameters
    ----------
    study
        The study's folder.
    clean
        Delete files and folders that nothing points to (left by kills and older states).
    json
        Print the findings as one JSON object.

    Exits with 1 where something is broken.
    """
    opened = Study.open(study)
    findings = checks.doctor(opened, _near_duplicates(opened))
    gone = checks.clean(study) if clean else []
    if json:
        print_json({"study": _counts(opened), "findings": [f.to_json() for f in findings],
                    "deleted": gone})  # fmt: skip
    else:
        say(f"{study}: {_described(opened)}")
        for finding in findings:
            say(f"{_MARKS[finding.level]} {finding.check}: {finding.summary}")
            if finding.n:
                say(f"     {finding.meaning}")
                if finding.examples:
                    say(f"     e.g. {'; '.join(finding.examples)}")
        if clean:
            say(f"deleted {len(gone)} leftovers" + (f": {', '.join(gone[:5])}" if gone else ""))
    return 1 if any(f.level == "error" for f in findings) else 0


def encode(
    study: Path,
    /,
    *,
    vectors: Path | None = None,
    ids: Path | None = None,
    name: str | None = None,
    encoder: Annotated[EncoderConfig, Parameter(name="*")] = _DEFAULT_ENCODER,
    wait: float = 10.0,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Make text vectors of the study's items, or take vectors made elsewhere.

    Texts that already have a vector of this encoder are not encoded again; a stopped run goes
    on where it was.

    Parameters
    ----------
    study
        The study's folder.
    vectors
        File with vectors made elsewhere (.npz, .npy, .safetensors, .parquet) instead.
    ids
        Item ids, one a line, for an .npy file.
    name
        Name of the vectors in the study; the encoder's (or the file's) own where not given.
    wait
        Seconds to wait for another writer.
    json
        Print what was done as one JSON object.
    """
    if vectors is not None:
        taken = import_vectors(study, vectors, name=name or vectors.stem, ids=ids, wait=wait)
        if json:
            print_json({**taken._asdict(), "folder": str(taken.folder)})
        else:
            say(
                f"vectors of {taken.n_items:,} items ({taken.dim} dimensions),"
                f" {taken.n_missing:,} items have none, {taken.n_unknown:,} ids are no items:"
                f" {taken.folder}"
            )
        return 0
    with progress() as line:
        done = encode_study(study, encoder, name=name, progress=line, wait=wait)
    if json:
        print_json({**done._asdict(), "folder": str(done.folder)})
    else:
        say(
            f"vectors of {done.n_texts:,} texts ({done.dim} dimensions), {done.n_new:,} new in"
            f" {done.seconds:.1f} s; {done.n_truncated:,} texts were longer than the encoder"
            f" reads, {done.n_without_text:,} items have no text: {done.folder}"
        )
    return 0


def attach_texts(
    study: Path,
    texts: Path,
    /,
    *,
    wait: float = 10.0,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Add texts to a study that has none; each must match the hash of the one evaluated.

    Parameters
    ----------
    study
        The study's folder.
    texts
        A table (CSV, TSV, JSONL, Parquet) with columns item_id and text.
    wait
        Seconds to wait for another writer.
    json
        Print what was done as one JSON object.
    """
    given = read_texts(texts)
    store.read_index(study)
    with store.writing(study, wait) as writer:
        opened, unknown = Study.open(study).attach_texts(given)
        if len(unknown) == len(given):
            raise InputError(
                f"none of its {len(given)} ids is an item of the study: first {unknown[0]!r},"
                f" expected ids like {opened.items['item_id'][0]!r}",
                file=texts,
            )
        writer.put_table("items", opened.items)
        writer.commit()
    n_texts = opened.items["text"].drop_nulls().len()
    if json:
        print_json({"n_given": len(given), "n_unknown": len(unknown), "n_with_text": n_texts})
    else:
        say(f"{len(given) - len(unknown):,} texts attached; {n_texts:,} of {opened.n_items:,}"
            f" items have a text now; {len(unknown):,} ids are no items of the study")  # fmt: skip
    return 0


def export(
    study: Path,
    /,
    *,
    as_: Annotated[str, Parameter(name="--as")],
    to: Path,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Write a study in another tool's format, into a new folder.

    Parameters
    ----------
    study
        The study's folder.
    as_
        The format: csv (items.csv, models.csv, responses.csv), lm-eval, inspect, or
        embedding-atlas (one Parquet table with the explorer's map and concepts).
    to
        The folder; it must not exist or be empty.
    json
        Print what was written as one JSON object.
    """
    from thetascope.explorer.exports import export_study, left_out

    opened = Study.open(study)
    written = export_study(opened, to, as_)
    lost = left_out(opened, as_)
    if json:
        print_json({"folder": str(to), "format": as_, "files": [str(p) for p in written],
                    "left_out": lost, "study": _counts(opened)})  # fmt: skip
        return 0
    say(f"exported {_described(opened)} into {len(written):,} files in {to} ({as_})")
    if lost:
        say(f"left out {'; '.join(lost)}")
    return 0


def _near_duplicates(study: Study) -> NDArray[np.int64] | None:
    """Groups by text and vectors; None (equal texts only) without one readable encoder."""
    from thetascope.predictors.base import item_features
    from thetascope.predictors.setup import study_groups

    assert study.path is not None
    if len(store.read_index(study.path).derived.get("vectors", {})) != 1:
        return None
    try:
        return study_groups(study, item_features(study)).labels
    except InputError:  # damaged vectors: the doctor says so itself
        return None


def _counts(study: Study) -> dict[str, object]:
    return {
        "n_items": study.n_items,
        "n_models": study.n_models,
        "n_runs": study.runs.height,
        "n_responses": study.responses.height,
        "benchmarks": study.benchmarks,
        "policy": study.policy,
    }


def _described(study: Study) -> str:
    parts = (
        (study.n_items, "item"), (study.n_models, "model"), (study.responses.height, "response"),
    )  # fmt: skip
    items, models, responses = (f"{n:,} {word}{'' if n == 1 else 's'}" for n, word in parts)
    n = len(study.benchmarks)
    return f"{items} of {n} benchmark{'' if n == 1 else 's'}, {models}, {responses}"
