"""An `outline_child` process that reports that it is ready and exits."""

import os

if __name__ == "__main__":
    os.write(1, b"\0\0\0\1" + bytes(4) + b"\0")
