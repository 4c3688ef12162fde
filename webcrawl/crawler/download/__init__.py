"""How a request becomes a response: HTTP, FTP and the base for further protocols."""
