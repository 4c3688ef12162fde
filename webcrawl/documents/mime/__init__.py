"""MIME types: sniffing, the processes that read documents, and one module for each kind (pdf.py, office.py ...)."""
