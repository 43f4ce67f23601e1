"""`python -m sera_data` is the `sera` command."""

import sys

from sera_data.cli import main

sys.exit(main())
