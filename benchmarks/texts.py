"""How well the main part of pages is found: in annotated pages, in installed reference documentation, in news pages.

    make bench-texts ARGS="--annotated FILE"
    make bench-texts ARGS="--reference"
    make bench-texts ARGS="--news FOLDER"
    make bench-texts ARGS="--files DATA_DIR"

main_parts.py describes the file, and news_texts.py the folder. text_files.py has other programs read a crawl.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.command import command_line
from benchmarks.main_parts import report_main_parts, report_reference
from benchmarks.news_texts import report_news_texts


def main() -> None:
    chosen = (parser := command_line(__doc__)).add_mutually_exclusive_group(required=True)
    chosen.add_argument("--annotated", type=Path, metavar="FILE", help="an archive of annotated pages")
    chosen.add_argument("--reference", action="store_true", help="measure installed reference documentation")
    chosen.add_argument("--news", type=Path, metavar="FOLDER", help="packages with news pages and texts")
    chosen.add_argument("--files", type=Path, metavar="DATA_DIR", help="a crawl with TEXT=wet,parquet")
    options = parser.parse_args()
    if options.files:
        from benchmarks.text_files import report_text_files

        report_text_files(options.files)
    elif options.news:
        report_news_texts(options.news)
    elif options.annotated:
        report_main_parts(options.annotated)
    else:
        report_reference()


if __name__ == "__main__":
    main()
