"""`python -m sera_data` is the `sera` command."""

import sys

from sera_data.start import main

sys.exit(main())
