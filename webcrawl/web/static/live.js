// Keeps an open page up to date: replaces the parts that the server sends, asks before dangerous actions, and
// lets go of the stream while nobody looks (a browser allows six connections to one server).
"use strict";
{
  const address = document.body.dataset.live;
  const away = document.getElementById("away");
  let stream = null;

  const say = (text) => {
    away.textContent = text;
    away.hidden = !text;
  };

  // Replaces the content of an element, but not while somebody uses a part of it.
  const replace = (id, html) => {
    const element = document.getElementById(id);
    if (!element || (element !== document.activeElement && element.contains(document.activeElement))) return;
    const scrolled = [...element.querySelectorAll(".scroll")].map((one) => [one.scrollLeft, one.scrollTop]);
    element.innerHTML = html;
    element.querySelectorAll(".scroll").forEach((one, place) => {
      if (scrolled[place]) [one.scrollLeft, one.scrollTop] = scrolled[place];
    });
  };

  const take = (event) => {
    const parts = JSON.parse(event.data);
    for (const [id, html] of Object.entries(parts)) {
      if (id === "") say(html && `No news: ${html}. Trying again.`);
      else if (id.startsWith("@")) document.dispatchEvent(new CustomEvent("live-" + id.slice(1), { detail: html }));
      else replace(id, html);
    }
  };

  const listen = () => {
    if (!address || stream || document.hidden) return;
    stream = new EventSource(address);
    stream.onmessage = take;
    stream.onerror = () => {
      say("The dashboard does not answer. Trying again.");
      if (stream && stream.readyState === EventSource.CLOSED) {
        stream = null;
        setTimeout(listen, 3000);
      }
    };
    stream.onopen = () => say("");
  };

  document.addEventListener("visibilitychange", () => {
    if (document.hidden && stream) {
      stream.close();
      stream = null;
    }
    listen();
  });
  listen();

  document.addEventListener("submit", (event) => {
    const question = event.target.dataset.confirm;
    if (question && !confirm(question)) event.preventDefault();
  });
}
