"""Runs programs in forks of a Python that has imported what they need, as imports take longer than most of them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.crawls import CHECKOUT

_SERVER = """
import contextlib, io, json, os, sys, traceback

def run(program, answers):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            exec(program, globals())
        except BaseException:
            traceback.print_exc(file=out)
    os.write(answers, out.getvalue().encode())
    os._exit(0)

for line in sys.stdin:
    answers, sent = os.pipe()
    if not (pid := os.fork()):
        run(json.loads(line), sent)
    os.close(sent)
    with open(answers) as file:
        text = file.read()
    print(json.dumps([text, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])]), flush=True)
"""


@contextmanager
def forks_of(imports: str) -> Iterator[Callable[[str], str]]:
    """Starts a Python that runs `imports`, and yields what runs a program in a fork of it and returns what it prints.

    The traceback of a program that fails is printed too. AssertionError: a signal ended it.
    """
    words = [sys.executable, "-c", f"{imports}\n{_SERVER}"]
    with subprocess.Popen(
        words, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def run(program: str) -> str:
            print(json.dumps(program), file=stdin, flush=True)
            text, status = json.loads(stdout.readline())
            assert status == 0, f"{program} ended with {status}"
            return str(text)

        yield run
        stdin.close()
