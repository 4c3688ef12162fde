"""The process that reads documents other than HTML: `python -m webcrawl.documents.mime.reader_child MEMORY`.

A question is [reader, seconds, memory, arguments, mime_type, charset, url, path]. `memory`: how many bytes of address
space the document may take, or None for no further limit. `arguments`: the keyword arguments of the reader. The body
follows the question, or is in the file `path`.
`webcrawl.documents.mime.reader.answer` makes the answer.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from webcrawl.config.libraries import named_object
from webcrawl.documents.body import Body
from webcrawl.documents.document import Document
from webcrawl.documents.mime.facts import pack_error
from webcrawl.documents.mime.reader import answer
from webcrawl.documents.sandbox import Sandbox, bound_cpu_seconds, bound_memory
from webcrawl.errors import ResourcesExhausted, UnreadableDocument


def main() -> None:
    """Answers questions until the parent closes the socket."""
    Sandbox().serve(_answer)


def _answer(question: Any, body: bytes) -> bytes:
    reader, seconds, memory, arguments, mime_type, charset, url, path = question
    bound_cpu_seconds(seconds)
    try:
        with suppress(Exception):  # `answer` reports the error
            named_object(
                reader
            )  # the limit comes later: the memory of libraries does not count as the document's
        bound_memory(memory)
        document = Document(body if path is None else Body.at(path), mime_type, charset, url)
        return answer(reader, document, arguments)
    except UnreadableDocument as error:
        return pack_error(str(error), exhausted=isinstance(error, ResourcesExhausted))
    except OSError as error:
        return pack_error(f"cannot be opened: {error}", exhausted=True)
    finally:
        bound_memory(None)


if __name__ == "__main__":
    main()
