"""Commands that show a study in a browser: explore, publish."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from thetascope.cli.output import print_json, progress, say
from thetascope.report.text import plural


def explore(
    study: Path,
    /,
    *,
    host: str = "127.0.0.1",
    port: int = 8322,
    browser: bool = True,
    title: str | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """See a study in the browser: its space, its gaps, its models, its items.

    Read-only: nothing is written into the study, and nothing leaves this machine. It listens on
    this machine alone unless --host says otherwise; then whoever asks has to know the token that
    stands in the printed address. What is in the study at the start is shown: start it again
    after an import. SIGTERM and Ctrl-C end it.

    Parameters
    ----------
    study
        The study's folder.
    host
        Address to listen on.
    port
        Port; 0 for a free one, which is then printed.
    browser
        Whether to open a browser, where a person looks at the output.
    title
        Title of the page; the folder's name where not given.
    json
        Print the address as one JSON object.
    """
    from thetascope.explorer.server import listen, make_app, run_until_stopped

    listening, door = listen(host, port)
    with progress() as line:
        line(0, -1, "reading the study")
        app = make_app(study, door, title)
    sources = app.contents.sources
    if json:
        print_json({"url": door.url, "models": len(sources.models), "items": sources.n_items,
                    "answers": list(app.answers.given)})  # fmt: skip
    else:
        size = f"{plural(sources.n_items, 'item')}, {plural(len(sources.models), 'model')}"
        say(f"{size} at {door.url} (Ctrl-C stops it)")
        for what, m in sorted(app.answers.missing.items()):
            say(f"it cannot {what}: {m.why} {m.command}")
        if door.token is not None:
            say("whoever has this address, with its token, sees all that is in the study")
    sys.stdout.flush()
    if browser and not json and sys.stdout.isatty():
        import webbrowser

        webbrowser.open(door.url)
    run_until_stopped(app, listening)
    return 0


def publish(
    study: Path,
    /,
    *,
    to: Path,
    texts: bool = True,
    title: str | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Write the explorer's page with a study's figures as static files, to be shown anywhere.

    Any web server shows them, without a network of its own: python -m http.server -d DIR. A
    browser does not read them from the disk alone.

    Parameters
    ----------
    study
        The study's folder.
    to
        A new folder, or a FILE.zip; nothing is overwritten.
    texts
        Whether the items' texts, and the pieces of texts that concepts are shown with, go with
        it. Without them items have their names, figures and the concepts' labels.
    title
        Title of the page; the folder's name where not given.
    json
        Print one JSON object.
    """
    from thetascope.explorer.publish import publish as write

    with progress() as line:
        made = write(study, to, texts=texts, title=title, progress=line)
    if json:
        print_json(made.to_json())
        return 0
    size = f"{made.n_files:,} files, {made.n_bytes / 1e6:,.1f} MB"
    say(f"published {made.name}: {size} in {made.path}")
    if made.n_texts:
        more = " and pieces of them beside concepts" if made.contexts else ""
        say(f"in it are the texts of {made.n_texts:,} items{more}: whoever has it can read them"
            " (--no-texts leaves them out)")  # fmt: skip
    else:
        say("no item's text is in it")
    if made.path.suffix != ".zip":
        say(f"look at it with: python -m http.server -d {made.path}")
    return 0
