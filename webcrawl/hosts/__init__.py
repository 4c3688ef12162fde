"""Whether, when and at which address a host may be asked: robots.txt, politeness, DNS, address guard."""
