"""Lines of FTP listings in every known format."""

from __future__ import annotations

import time

import pytest

from tests.cases import cases
from webcrawl.crawler.download.ftp_listing import FolderEntry, FolderListing, list_entry, mlsd_entry

CITTÀ = "città".encode()

LIST = [
    (b"-rw-r--r--    1 0        0              12 Nov 21  2024 a.txt", (b"a.txt", False, "12")),
    (b"-rw-r--r-- 1 ftp ftp 5 Jan 01 10:00 a.txt", (b"a.txt", False, "5")),
    (b"-rw-r--r-- 1 ftp ftp 5 Feb 29 10:00 leap", (b"leap", False, "5")),
    (b"drwxr-xr-x    3 0        0            4096 Nov 21  2024 sub", (b"sub", True, "4096")),
    (b"drwxr-xr-x10 root root 4096 Nov 21  2024 many links", (b"many links", True, "4096")),
    (b"drwxrwsrwt 2 ftp ftp 4096 Jan 01 2020 tmp", (b"tmp", True, "4096")),
    (b"-rwSr-Sr-T 1 ftp ftp 5 Jan 01 2020 Caps", (b"Caps", False, "5")),
    (b"-rw-r--r--+ 1 ftp ftp 5 Jan 01 2020 acl", (b"acl", False, "5")),
    (b"drwxr-xr-x. 2 ftp ftp 4096 Jan 01 2020 selinux", (b"selinux", True, "4096")),
    (b"-rw-r--r-- 1 ftp 5 Jan 01 2020 no group", (b"no group", False, "5")),
    (b"-rw-r--r-- 1 ftp 12 4096 Jan 01 2020 group of digits", (b"group of digits", False, "4096")),
    (b"-rw-r--r-- 1 Domain Users ftp 5 Jan 01 2020 owner", (b"owner", False, "5")),
    (b"drwxrwxr-x folder 2 May 10 1996 network", (b"network", True, "2")),
    (b"-rw-r--r-- 1 ftp ftp 5 2020-01-01 10:00 iso", (b"iso", False, "5")),
    (b"-rw-r--r-- 1 ftp ftp 5 2020-01-01 10:00:00.000000000 +0100 full", (b"full", False, "5")),
    (b"-rw-r--r-- 1 ftp ftp 5 2020-01-01  old", (b"old", False, "5")),
    (b"-rw-r--r-- 1 ftp ftp 5 01-31 10:00 new", (b"new", False, "5")),
    ("-rw-r--r-- 1 ftp ftp 5 Mär 01 2020 März".encode(), ("März".encode(), False, "5")),
    (b"-rw-r--r-- 1 ftp ftp 5 1. Okt 2020 Okt", (b"Okt", False, "5")),
    ("-rw-r--r-- 1 ftp ftp 5 11月 21日 10:00 月".encode(), ("月".encode(), False, "5")),
    (b"-rw-r--r-- 1 ftp ftp 5 Jan 01 2020 5 Jan 01 2020 x", (b"5 Jan 01 2020 x", False, "5")),
    (b"-rw-r--r-- 1 ftp ftp 5 Jan 01 2020  lead", (b" lead", False, "5")),
    (b"-rw-r--r-- 1 ftp ftp 5 Jan 01 2020 trail ", (b"trail ", False, "5")),
    (b"-rw-r--r-- 1 ftp ftp 5 Jan 01 2020 " + CITTÀ, (CITTÀ, False, "5")),
    (b"-rw-r--r-- 1 ftp ftp 5 Jan 01 2020 \xa0\x85\xa0", (b"\xa0\x85\xa0", False, "5")),
    (b"-rw-r--r-- 1 ftp ftp 5 Jan 01 2020 ./a", (b"a", False, "5")),
    (b"lrwxrwxrwx 1 ftp ftp 5 Jan 01 2020 to a file -> ../a", (b"to a file", False, "5")),
    (b"lrwxrwxrwx 1 ftp ftp 5 Jan 01 2020 to a folder -> ../a/", (b"to a folder", True, "5")),
    (b"lrwxrwxrwx 1 ftp ftp 5 Jan 01 2020 to nothing -> ", (b"to nothing", False, "5")),
    (b"lrwxrwxrwx 1 ftp ftp 5 Jan 01 2020 unsaid", (b"unsaid", False, "5")),
    (b"crw-rw-rw- 1 root root 1, 3 Jan 01 2020 null", None),
    (b"drwxr-xr-x 3 0 0 4096 Nov 21  2024 ..", None),
    (b"01-31-20  10:00AM       <DIR>          a folder", (b"a folder", True, "")),
    (b"01-31-2020  10:00PM            1,234,567 a file", (b"a file", False, "1234567")),
    (b"2020-01-31  22:00                      5  lead ", (b" lead ", False, "5")),
    (b"+i8388621.48594,m825718503,r,s280,\teplf.txt", (b"eplf.txt", False, "280")),
    (b"+i8388621.50690,m824255907,/,\t514", (b"514", True, "")),
    (b"+up644,s5,\tnobody may", None),
    (b"total 12", None),
    ("合計 4.0K".encode(), None),
    (b"", None),
]
MLSD = [
    (b"type=file;size=5; a b", (b"a b", False, "5")),
    (b"type=dir; " + CITTÀ, (CITTÀ, True, "")),
    (b"Modify=20200101000000;Type=File;Size=5; a", (b"a", False, "5")),
    (b"Type=DIR; sub", (b"sub", True, "")),
    (b"type=OS.unix=symlink;size=5; link", (b"link", False, "5")),
    (b"type=OS.UNIX=slink:/a target; link", (b"link", False, "")),
    (b"type=OS.unix=chr-13/29; device", None),
    (b"type=cdir; /pub/sub", None),
    (b"type=pdir; ..", None),
    (b"type=file;  lead", (b" lead", False, "")),
    (b"type=file; trail ", (b"trail ", False, "")),
    (b"type=file; a=b; c", (b"a=b; c", False, "")),
]


@cases(("line", "expected"), LIST)
def test_line_of_list_is_parsed(line: bytes, expected: tuple[bytes, bool, str] | None) -> None:
    assert list_entry(line) == (expected and FolderEntry(*expected))


@cases(("line", "expected"), MLSD)
def test_line_of_mlsd_is_parsed(line: bytes, expected: tuple[bytes, bool, str] | None) -> None:
    assert mlsd_entry(line) == (FolderEntry(*expected) if expected else None)


@cases(
    ("exact", "line"),
    [
        (False, b"hello I am no listing"),
        (False, b"-rw-r--r-- 1 ftp ftp 5 Jan 01 2020"),
        (False, b"-rw-r--r-- 1 ftp ftp 5 Jan 01 2020 sub/x.txt"),
        (False, b"type=file; a"),
        (True, b"size=5; a"),
        (True, b"type=file; ../../etc"),
        (True, b"nonsense"),
        (True, b""),
    ],
)
def test_unreadable_lines_are_counted(exact: bool, line: bytes) -> None:
    listing = FolderListing(exact)
    good = b"type=file; a" if exact else b"-rw-r--r-- 1 ftp ftp 5 Jan 01 2020 a"
    listing.add(good + b"\r\n")
    assert listing.problem is None
    for end in (b"\r\n", b"\n", b""):
        listing.add(line + end)
    assert [entry.name for entry in listing.entries] == [b"a"]
    assert listing.problem == f"3 of 4 lines of the listing could not be read, the first is {line.decode()!r}"


@pytest.mark.parametrize("unit", [b" ", b"1", b"1 ", b"a ", b"- ", b"1 a 1 ", b"a=;", b";", b"\t", b"r,"])
@pytest.mark.parametrize("start", [b"", b"-rw-r--r-- ", b"01-31-20  10:00AM ", b"+"])
def test_long_line_is_parsed_in_linear_time(start: bytes, unit: bytes) -> None:
    line, listing = start + unit * (60_000 // len(unit)), FolderListing(False)
    began = time.process_time()
    listing.add(line + b"\n")
    FolderListing(True).add(line + b"\n")
    assert time.process_time() - began < 1
