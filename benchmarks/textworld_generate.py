"""Records of TextWorld-Sync per second: all 3,100 of the three splits on one core, texts and JSON lines included.

CPU time is what is measured, so a busy machine does not change it much. Exit code 1 when it is 20 s or more. With
textworld-express installed the published splits are built and their digests compared, otherwise those of our own foods.

Run: ``python benchmarks/textworld_generate.py``.
"""

import sys
import time
from importlib.util import find_spec

from collect.textworld_bands import SPLITS
from collect.textworld_foods import INSTALLED, PACKAGE, open_foods
from collect.textworld_manifest import SOURCES, source_sha256
from collect.textworld_records import build_records, record_line

ALLOWED_SECONDS = 20.0


def main() -> int:
    foods = open_foods(INSTALLED if find_spec(PACKAGE) else None)
    start = time.process_time()
    splits = {split: list(build_records(split, foods)) for split in SPLITS}
    size = sum(len(record_line(record)) for records in splits.values() for record in records)
    seconds = time.process_time() - start
    count = sum(map(len, splits.values()))
    print(f"{count} records, {size / 1e6:.1f} MB of lines, foods {foods.name}")
    print(f"  {seconds:.2f} s of CPU time   {count / seconds:,.0f} records/s   wanted: under {ALLOWED_SECONDS:g} s")
    wrong = [split for split, records in splits.items() if source_sha256(split, records) != SOURCES[split]]
    if foods.published:
        print("  published digests: " + (f"differ for {', '.join(wrong)}" if wrong else "all three equal"))
        return int(bool(wrong) or seconds >= ALLOWED_SECONDS)
    return int(seconds >= ALLOWED_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
