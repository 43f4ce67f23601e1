"""The credit rules of the toolkit: one SQL file per rule, and the methods registered under `sera.credits`.

Invariant: a file returns exactly the columns of `learn.credit.SCHEMA`, reads the store's tables and views only, and
binds `$name` parameters from the method. Register your own under the entry-point group `sera.credits`: a path of
an `.sql` file (rows of any stage) or of a method's `.yaml` file.
"""

from pathlib import Path

SERA = Path(__file__).parent.parent / "methods" / "sera.yaml"
RAO = Path(__file__).parent.parent / "methods" / "rao.yaml"
