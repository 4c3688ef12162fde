// Draws the history of crawls with uPlot, and adds what the live stream brings.
"use strict";
{
  const GAP = 5; // times the usual step: then the crawl was off, and the line is broken
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const number = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
  const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

  const moment = (seconds, step) => {
    const time = new Date(seconds * 1000);
    if (step >= 86400) return time.toLocaleDateString([], { month: "short", day: "numeric" });
    const parts = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
    return time.toLocaleTimeString([], step < 60 ? { ...parts, second: "2-digit" } : parts);
  };

  // Values of one plot from the columns of figures; the change of a total becomes a rate.
  const rate = (times, totals, seconds) => {
    const steps = times.slice(1).map((time, place) => time - times[place]).sort((a, b) => a - b);
    const usual = steps.length ? steps[steps.length >> 1] : 0;
    return totals.map((total, place) => {
      if (!place) return null;
      const passed = times[place] - times[place - 1];
      if (passed <= 0 || passed > GAP * Math.max(usual, 10)) return null;
      return (Math.max(0, total - totals[place - 1]) / passed) * seconds;
    });
  };
  // The places of values without a neighbour: no line goes through them, so they are drawn as points.
  const alone = (values) =>
    [...values.keys()].filter(
      (place) => values[place] != null && values[place - 1] == null && values[place + 1] == null,
    );
  const sum = (one, other) => one.map((value, place) => value + other[place]);
  const PLOTS = {
    rate: (data) => rate(data.time, data.pages, 1),
    queue: (data) => data.queued,
    errors: (data) => rate(data.time, sum(data.errors, data.failed), 60),
    hosts: (data) => data.hosts,
  };

  class Plots {
    constructor(element) {
      this.element = element;
      this.crawl = element.dataset.crawl;
      this.figures = [...element.querySelectorAll(".plot")];
      this.charts = [];
      this.data = null;
    }

    async load(span) {
      this.span = span;
      const answer = await fetch(`/crawls/${encodeURIComponent(this.crawl)}/history?span=${span}`);
      if (!answer.ok || this.span !== span) return;
      this.data = await answer.json();
      this.draw();
    }

    add(point) {
      if (!this.data) return;
      const times = this.data.time;
      const last = times[times.length - 1] || 0;
      // points of the stream come faster than samples: keep one for each ten seconds, and the newest
      if (this.provisional && times.length > 1 && point.time - times[times.length - 2] < 10)
        for (const name in this.data) this.data[name].pop();
      else if (point.time <= last) return;
      for (const name in this.data) this.data[name].push(point[name]);
      this.provisional = true;
      if (this.span === "hour") while (times.length > 400) for (const name in this.data) this.data[name].shift();
      this.draw();
    }

    draw() {
      // a crawl that ended within seconds; an axis of one moment has no scale
      const few = this.data.time.length < 2;
      this.element.querySelector(".few").hidden = !few;
      this.figures.forEach((figure) => (figure.hidden = few));
      if (few) return;
      this.figures.forEach((figure, place) => {
        const values = PLOTS[figure.dataset.plot](this.data);
        const rows = [this.data.time, values];
        const latest = values.findLast((value) => value !== null);
        figure.querySelector("output").textContent = latest === undefined ? "" : number.format(latest);
        if (this.charts[place]) this.charts[place].setData(rows);
        else this.charts[place] = this.make(figure.querySelector(".canvas"), rows);
      });
    }

    make(element, rows) {
      const line = colour("--line");
      const text = colour("--muted");
      const axis = { stroke: text, grid: { stroke: line, width: 1 }, ticks: { show: false }, font: "11px system-ui" };
      const options = {
        width: element.clientWidth,
        height: element.clientHeight,
        legend: { show: false },
        cursor: { y: false, sync: { key: "time" }, drag: { x: false, y: false } },
        scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
        axes: [
          { ...axis, space: 64, size: 22, values: (_, ticks, __, ___, step) => ticks.map((tick) => moment(tick, step)) },
          { ...axis, size: 44, space: 28, values: (_, ticks) => ticks.map((tick) => short.format(tick)) },
        ],
        series: [
          {},
          {
            stroke: colour("--accent"),
            fill: colour("--accent-soft"),
            width: 1.5,
            points: { show: true, size: 6, fill: colour("--accent"), filter: (chart, row) => alone(chart.data[row]) },
          },
        ],
      };
      return new uPlot(options, rows, element);
    }

    forget() {
      this.charts.forEach((chart) => chart.destroy());
      this.charts = [];
      if (this.data) this.draw();
    }

    resize() {
      this.charts.forEach((chart, place) => {
        const element = this.figures[place].querySelector(".canvas");
        chart.setSize({ width: element.clientWidth, height: element.clientHeight });
      });
    }
  }

  const all = [...document.querySelectorAll(".plots")].map((element) => new Plots(element));
  const load = () => {
    const chosen = document.querySelector("input[name=span]:checked");
    for (const plots of all) {
      plots.provisional = false;
      plots.load(chosen ? chosen.value : "hour");
    }
  };
  load();
  document.querySelectorAll("input[name=span]").forEach((input) => input.addEventListener("change", load));
  document.addEventListener("live-points", (event) => {
    const points = JSON.parse(event.detail);
    for (const plots of all) if (points[plots.crawl]) plots.add(points[plots.crawl]);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => all.forEach((plots) => plots.forget()));
  new ResizeObserver(() => all.forEach((plots) => plots.resize())).observe(document.getElementById("main"));
}
