"""What an installation without extras weighs: `make weight`.

It installs the package with the versions of `requirements/crawler.txt` into a new environment. It prints the
size of all files of that environment but pip's and setuptools', the number of packages, the largest ones, and
how long `webcrawl page -h` takes (the median of ten starts).
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CHECKOUT = Path(__file__).parent.parent
STARTS = 10
SHOWN = 12
_INSTALLERS = ("pip", "setuptools")
# runs in the new environment: name -> bytes of its files, compiled modules included
_SIZES = """
import json
from importlib.metadata import distributions
def size(distribution):
    files = [distribution.locate_file(file) for file in distribution.files or ()]
    compiled = [path for file in files if file.suffix == ".py"
        for path in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc")]
    return sum(path.stat().st_size for path in {*files, *compiled} if path.is_file())
print(json.dumps({each.metadata["Name"]: size(each) for each in distributions()}))
"""


def main() -> None:
    """Prints the table."""
    with tempfile.TemporaryDirectory() as folder:
        installed = _installed(Path(folder))
        sizes = json.loads(_run(installed / "python", "-c", _SIZES))
        seconds = [_seconds(installed / "webcrawl", "page", "-h") for _ in range(STARTS)]
    weights = {name: size for name, size in sizes.items() if name not in _INSTALLERS}
    largest = sorted(weights.items(), key=lambda pair: -pair[1])[:SHOWN]
    print(f"size       {sum(weights.values()) / 1e6:,.0f} MB, without {' and '.join(_INSTALLERS)}")
    print(f"packages   {len(weights)}")
    print(f"start      {statistics.median(seconds):.2f} s (webcrawl page -h, the median of {STARTS})")
    print("largest    " + ", ".join(f"{name} {size / 1e6:.0f}" for name, size in largest))


def _installed(folder: Path) -> Path:
    """Installs the package into a new environment in a folder; returns the folder of its programs."""
    _run(sys.executable, "-m", "venv", folder / "venv")
    programs = folder / "venv" / "bin"
    pip = (programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    for name in ("build", "crawler"):
        pinned = CHECKOUT / "requirements" / f"{name}.txt"
        _run(*pip, "--require-hashes", "--no-build-isolation", "-r", pinned)
    # a copy, so that nothing is built in the checkout
    _run("git", "-C", CHECKOUT, "checkout-index", "--all", f"--prefix={folder}/source/")
    _run(*pip, "--no-deps", "--no-build-isolation", folder / "source")
    return programs


def _seconds(*command: object) -> float:
    start = time.perf_counter()
    _run(*command)
    return time.perf_counter() - start


def _run(*command: object) -> str:
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
