"""The messages between a worker and a child process that reads documents, over one socket.

    parent -> child   two lengths of four bytes (big-endian), a question in MessagePack, the body of a document
    child -> parent   a length of four bytes, the processor seconds that the answer took (a float of four bytes),
                      the answer; the answers come in the order of the questions

The first answer is `READY` or `READY_WITH_FILES`. It belongs to no question.
"""

from __future__ import annotations

import struct

QUESTION_HEAD = struct.Struct(">II")
ANSWER_HEAD = struct.Struct(">If")
READY, READY_WITH_FILES = b"\0", b"\1"
"""The child is ready. After READY_WITH_FILES, the parent may send the path of a body instead of its bytes."""
OUT_OF_MEMORY_STATUS = 77
