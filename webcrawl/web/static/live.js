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

  // What is shown is as old as the last news, which it says once.
  let since = null;
  const sayNoNews = (reason) => {
    if (!reason) since = null;
    else since ||= new Date().toLocaleTimeString([], { hourCycle: "h23" });
    say(reason && `No news since ${since}: ${reason}. Trying again.`);
  };

  // Replaces the content of an element; while somebody uses a part of it or selects its text, it waits.
  const waiting = new Map();
  const inUse = (element) => {
    const selection = getSelection();
    const focused = element !== document.activeElement && element.contains(document.activeElement);
    return focused || (!selection.isCollapsed && element.contains(selection.anchorNode));
  };
  const replace = (id, html) => {
    const element = document.getElementById(id);
    if (!element) return;
    waiting.delete(id);
    if (inUse(element)) {
      waiting.set(id, html);
      return;
    }
    const scrolled = [...element.querySelectorAll(".scroll")].map((one) => [one.scrollLeft, one.scrollTop]);
    // what is below does not jump up when a part gets shorter
    element.style.minHeight = `${element.offsetHeight}px`;
    element.innerHTML = html;
    element.querySelectorAll(".scroll").forEach((one, place) => {
      if (scrolled[place]) [one.scrollLeft, one.scrollTop] = scrolled[place];
    });
  };

  // A copy, as a part that still waits is entered anew, and a loop over a map meets such an entry again: for ever.
  const replaceWaiting = () => setTimeout(() => [...waiting].forEach(([id, html]) => replace(id, html)));
  document.addEventListener("focusout", replaceWaiting);
  addEventListener("resize", () => document.querySelectorAll("[style]").forEach((one) => (one.style.minHeight = "")));
  document.addEventListener("selectionchange", replaceWaiting);

  // What has begun meanwhile has no place yet, and what has changed its state has other buttons.
  document.addEventListener("live-shown", (event) => {
    if (event.detail !== document.getElementById("shown").textContent) location.reload();
  });

  // A table that does not change by itself tells that there is more; a screen reader hears it every ten seconds at most.
  const news = document.getElementById("news");
  let told = 0;
  let later = null;
  const tellNews = (total) => {
    const more = Number(total) - Number(news.dataset.total);
    clearTimeout(later);
    if (more <= 0) return;
    const wait = told + 10_000 - Date.now();
    if (wait > 0) {
      later = setTimeout(() => tellNews(total), wait);
      return;
    }
    told = Date.now();
    const again = document.createElement("a");
    again.href = location.href;
    again.textContent = "Read it again";
    const what = more === 1 ? news.dataset.one : news.dataset.many;
    news.replaceChildren(`${more.toLocaleString("en")} ${what}. `, again);
    news.hidden = false;
  };
  document.addEventListener("live-total", (event) => tellNews(event.detail));

  const take = (event) => {
    const parts = JSON.parse(event.data);
    for (const [id, html] of Object.entries(parts)) {
      if (id === "") sayNoNews(html);
      else if (id.startsWith("@")) document.dispatchEvent(new CustomEvent("live-" + id.slice(1), { detail: html }));
      else replace(id, html);
    }
  };

  const listen = () => {
    if (!address || stream || document.hidden) return;
    stream = new EventSource(address);
    stream.onmessage = take;
    stream.onerror = () => {
      sayNoNews("the dashboard does not answer");
      if (stream && stream.readyState === EventSource.CLOSED) {
        stream = null;
        setTimeout(listen, 3000);
      }
    };
    stream.onopen = () => sayNoNews("");
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
