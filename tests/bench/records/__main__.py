"""``python -m tests.bench.records``: which records are of older code, and do the pages say so?

Exit code 0: all records are of this code. 1: some are older, and pages say so. 2: pages say something else
than records, or a record cannot be judged. `--write` writes ages and pages.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.bench.records.age import UnknownCommit, changed_since
from tests.bench.records.pages import pages, rewritten
from tests.bench.records.record import Record, records

FRESH, OLDER, WRONG = 0, 1, 2


def main(arguments: Sequence[str]) -> int:
    """Judge, print and perhaps write."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.records", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write ages into records, and tables into pages")
    parser.add_argument("--pages", action="store_true", help="write pages alone; needs no history")
    options = parser.parse_args(arguments)
    known = records()
    code = FRESH
    if not options.pages:
        for name, record in known.items():
            code = max(code, _judge(known, name, record, write=options.write))
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if (wanted := rewritten(text, known)) == text:
            continue
        if options.write or options.pages:
            page.write_text(wanted, encoding="utf-8")
        else:
            print(f"{page}: differs from its records; run `make records ARGS=--write`")
            code = WRONG
    return code


def _judge(known: dict[str, Record], name: str, record: Record, *, write: bool) -> int:
    try:
        older = changed_since(record)
    except UnknownCommit as error:
        print(error)
        return WRONG
    print(f"{name}: {'changed since: ' + ', '.join(older) if older else 'of this code'}")
    if older == tuple(record.older):
        return OLDER if older else FRESH
    if not write:
        print(f"{name}: the record does not say so; run `make records ARGS=--write`")
        return WRONG
    known[name] = record.model_copy(update={"older": older})
    known[name].write()
    return OLDER if older else FRESH


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
