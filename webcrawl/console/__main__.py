"""`python -m webcrawl.console` is the program `webcrawl`, also where no PATH leads to it."""

import sys

from webcrawl.console import main

sys.argv[0] = "webcrawl"
sys.exit(main())
