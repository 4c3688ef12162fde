// Opens the archived page of a URL whose link was followed in the frame; see webcrawl/web/pages/archived.py.
"use strict";
{
  const frame = document.querySelector("iframe.archived");
  const follow = () => {
    let address;
    try {
      address = new URL(frame.contentWindow.location.href);
    } catch {
      return; // an archived page, whose address is hidden
    }
    const url = address.pathname === frame.dataset.followed && address.searchParams.get("url");
    // replaces this page in the history of the frame, to which "back" would lead here again
    if (url) location.replace(`?${new URLSearchParams({ url })}`);
  };
  if (frame) frame.addEventListener("load", follow);
}
