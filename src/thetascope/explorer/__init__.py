"""The explorer: a study in a browser, served (`explore`) or as files (`publish`).

`contents` makes the files (docs/explorer-files.md), `publish` writes them with the page,
`server` serves both and gives the few answers that are computed. Only `server` needs the extra
`serve`.
"""

from thetascope.explorer.contents import Contents

__all__ = ["Contents"]
