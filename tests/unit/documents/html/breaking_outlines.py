"""An `outline_child` process that misbehaves for pages with certain words. Takes the same arguments."""

from __future__ import annotations

import ctypes
import os
import time

from webcrawl.documents.document import Document
from webcrawl.documents.html import outline_child
from webcrawl.documents.html.outline import Outline, make_outline


def misbehave_or_make_outline(document: Document, **wanted: bool) -> Outline:
    text = document.text
    if "crash" in text:
        ctypes.string_at(0)
    elif "leave" in text:
        os._exit(3)
    elif "hang" in text:
        time.sleep(600)
    elif "grow" in text:
        held = []
        while True:
            held.append(bytes(16_000_000))
    elif "fault" in text:
        raise KeyError("ours")
    elif "rubbish" in text:
        os.write(3, b"\0\0\0\1" + bytes(4) + b"\xc0")
    elif "endless" in text:
        os.write(3, b"\xff\xff\xff\xff" + bytes(4))
    return make_outline(document, **wanted)


if __name__ == "__main__":
    os.dup2(1, 3)
    outline_child.make_outline = misbehave_or_make_outline
    outline_child.main()
