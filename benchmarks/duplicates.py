"""Near-duplicates: the cost of the index in the engine, and how well texts are distinguished.

make bench-duplicates                        everything; the index with 10 million texts
make bench-duplicates ARGS="--texts 1e6"     with a million
make bench-duplicates ARGS="--only texts"    only changed pages
make bench-duplicates ARGS="--only main"     only the main part of pages, against other tools that are installed
make bench-duplicates ARGS="--annotated FILE"   only annotated pages, see annotated_pages.py
make bench-duplicates ARGS="--only index --json benchmarks/results/near-duplicates.json --page docs/benchmarks.md"
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.annotated_pages import report_annotated_pages
from benchmarks.changed_texts import report_changed_texts
from benchmarks.command import command_line
from benchmarks.main_parts import report_main_parts
from benchmarks.near_index import SECTION, report_index


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--texts", type=float, default=1e7, help="how many the index holds")
    parser.add_argument("--only", choices=("index", "texts", "main"))
    parser.add_argument("--annotated", type=Path, metavar="FILE", help="an archive of annotated pages")
    SECTION.add_options(parser)
    options = parser.parse_args()
    if options.annotated:
        return report_annotated_pages(options.annotated)
    if options.only in (None, "texts"):
        report_changed_texts()
    if options.only in (None, "main"):
        report_main_parts()
    if options.only in (None, "index"):
        report_index(int(options.texts), options.json, options.page)


if __name__ == "__main__":
    main()
