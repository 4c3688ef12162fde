"""Where a request or a page is stopped, held back or changed on its way: one component a file."""
