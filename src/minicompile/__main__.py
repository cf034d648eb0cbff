"""`python -m minicompile`: the command `minicompile`."""

import sys

from minicompile.command import main

if __name__ == "__main__":
    sys.exit(main())
