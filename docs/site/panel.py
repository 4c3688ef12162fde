"""Draws docs/pictures/panel.svg from the panel of a real crawl of the demo: `make pictures`.

The crawl runs in a pseudo-terminal, as in a user's; the picture is its screen half way.
"""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

CHECKOUT = Path(__file__).resolve().parents[2]
PICTURE = CHECKOUT / "docs" / "pictures" / "panel.svg"
COLUMNS = 86
SECONDS = 60
# a panel from its upper to its lower border
_PANEL = re.compile(r"╭.*?╰[^\n]*╯", re.DOTALL)
_MOVES = re.compile(r"\x1b\[(?:\?\d+[hl]|\d*[A-DJK])|\r")


def screen(folder: str) -> str:
    """Returns what a crawl of the demo writes to a terminal."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": "40"}
    words = [sys.executable, "-m", "webcrawl.demo", "-s", f"DATA_DIR={folder}", "-s", "PROGRESS=live"]
    crawl = subprocess.Popen(words, cwd=CHECKOUT, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    written = b""
    try:
        while piece := os.read(ours, 65536):
            written += piece
    except OSError:  # the terminal is closed
        pass
    os.close(ours)
    crawl.wait(SECONDS)
    return written.decode(errors="replace")


def panels(written: str) -> list[str]:
    """Returns the panels that were shown, in order, with their colours."""
    return [match[0] for match in _PANEL.finditer(_MOVES.sub("", written))]


def svg(panel: str) -> str:
    """Returns a picture of a panel."""
    text = Text.from_ansi(panel)
    width = max(line.cell_len for line in text.split())
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True)
    console.print(text)
    return console.export_svg(title="make crawl", unique_id="panel")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        shown = panels(screen(folder))
    if not shown:
        sys.exit("the crawl has shown no panel")
    # fonts of other servers are not loaded
    picture = re.sub(r"@font-face \{.*?\}\s*", "", svg(shown[len(shown) // 2]), flags=re.DOTALL)
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture)
