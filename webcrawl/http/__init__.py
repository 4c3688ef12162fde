"""A client of HTTP/1.1 on asyncio that reads what browsers read, and bounds what a server may cost."""
