"""`python -m thetascope` is `thetascope`."""

import sys

from thetascope.cli import main

sys.exit(main())
