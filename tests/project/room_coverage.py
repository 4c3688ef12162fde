"""Prints the share of lines that the tests run, for each room of `webcrawl`: the end of `make coverage`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from coverage import Coverage

CHECKOUT = Path(__file__).resolve().parents[2]
AIM = 90
"""Percent. Rooms below it are marked."""


def main() -> None:
    """Print a line for each room, the lowest share first."""
    coverage = Coverage()
    coverage.load()
    statements: Counter[str] = Counter()
    missing: Counter[str] = Counter()
    for path in sorted((CHECKOUT / "webcrawl").rglob("*.py")):
        _, lines, _, not_run, _ = coverage.analysis2(str(path))
        room = path.relative_to(CHECKOUT / "webcrawl").parts[0].removesuffix(".py")
        statements[room] += len(lines)
        missing[room] += len(not_run)
    shares = {room: 100 * (1 - missing[room] / lines) for room, lines in statements.items() if lines}
    for room, share in sorted(shares.items(), key=lambda pair: pair[1]):
        below = "  below the aim" if share < AIM else ""
        print(f"{room:<12} {share:5.1f} % of {statements[room]:,} lines{below}")
    print(
        f"{'all':<12} {100 * (1 - missing.total() / statements.total()):5.1f} % of {statements.total():,} lines"
    )


if __name__ == "__main__":
    main()
