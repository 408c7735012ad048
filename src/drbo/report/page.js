"use strict";
// Draws the figures, moves the dial, and sorts, filters and downloads the table. All data is in the element "data".
const data = JSON.parse(document.getElementById("data").textContent);
const element = (id) => document.getElementById(id);
const short = (value) => (value === null || value === undefined ? "unknown" : Number(value).toPrecision(4).replace(/\.?0+($|e)/, "$1"));
const shown = (value) => (typeof value === "number" && !Number.isInteger(value) ? short(value) : String(value));

function themed(figure) {
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(name).trim();
  const narrow = window.innerWidth < 600;
  const axis = { gridcolor: color("--line"), zerolinecolor: color("--line"), automargin: true };
  return {
    ...figure.layout,
    xaxis: { ...axis, ...figure.layout.xaxis },
    yaxis: { ...axis, ...figure.layout.yaxis },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: color("--text"), family: "system-ui, sans-serif", size: narrow ? 11 : 13 },
    margin: { l: narrow ? 45 : 60, r: 15, t: 12, b: 45 },
    showlegend: false, // the page has legends of its own, which wrap
  };
}

// The figures that have not been drawn yet, by the ids of their elements.
const waiting = new Set(Object.keys(data.figures));
if (data.maps) waiting.add("fig-map");

function draw(id) {
  const figure = id === "fig-map" ? data.maps[Number(element("map").value)] : data.figures[id];
  waiting.delete(id);
  const layout = { ...themed(figure), width: element(id).clientWidth }; // on paper it is another one
  Plotly.react(id, figure.data, layout, { responsive: true, displaylogo: false, displayModeBar: false });
}

function fill(list, pairs) {
  list.replaceChildren();
  for (const [name, value] of pairs) {
    const term = document.createElement("dt");
    const described = document.createElement("dd");
    term.textContent = name;
    described.textContent = value;
    list.append(term, described);
  }
}

function turn() {
  const stop = data.dial[Number(element("radius").value)];
  const mine = data.dial.find((one) => one.present);
  element("radius-value").textContent = short(stop.radius) + (stop.present ? " (this run)" : " (this run: " + short(mine.radius) + ")");
  element("radius").setAttribute("aria-valuetext", "radius " + short(stop.radius));
  fill(element("dial-action"), Object.entries(stop.action).map(([name, value]) => [name, shown(value)]));
  fill(element("dial-numbers"), [
    ["guaranteed", short(stop.guarantee)],
    ["expected under the reference", short(stop.expected)],
    ["price: lost if the reference is true", short(stop.price)],
    ["protection: gained in the worst case", short(stop.protection)],
  ]);
  [...element("dial-meaning").children].forEach((one, i) => one.classList.toggle("shown", data.dial[i] === stop));
  const mark = (x, dash) => ({ type: "line", x0: x, x1: x, yref: "paper", y0: 0, y1: 1, line: { dash: dash, width: 2, color: "#8a8f98" } });
  data.figures["fig-dial"].layout.shapes = [mark(mine.radius, "dot"), mark(stop.radius, "solid")];
  if (!waiting.has("fig-dial")) draw("fig-dial");
}

// All meanings lie upon each other, and one is visible: the page does not move when the dial does.
function meanings() {
  for (const stop of data.dial) {
    const one = document.createElement("pre");
    one.textContent = stop.meaning;
    element("dial-meaning").append(one);
  }
}

let order = { column: 0, down: false };
const compare = (a, b) => {
  if (a === b) return 0;
  if (a === null) return 1;
  if (b === null) return -1;
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
};

function rows() {
  const wanted = element("filter").value.toLowerCase();
  const kept = data.results.rows.filter((row) => row.some((cell) => String(cell).toLowerCase().includes(wanted)));
  return kept.sort((a, b) => (order.down ? -1 : 1) * compare(a[order.column], b[order.column]));
}

function table() {
  const body = element("table").tBodies[0];
  const found = rows();
  body.replaceChildren();
  for (const row of found) {
    const line = body.insertRow();
    for (const cell of row) {
      const place = line.insertCell();
      place.textContent = cell === null ? "" : shown(cell);
      place.className = typeof cell === "number" ? "number" : "";
    }
  }
  element("shown").textContent = found.length + " of " + data.results.rows.length + " shown";
  [...element("table").tHead.rows[0].cells].forEach((cell, i) => {
    cell.setAttribute("aria-sort", i !== order.column ? "none" : order.down ? "descending" : "ascending");
  });
}

function heads() {
  const line = element("table").tHead.insertRow();
  data.results.columns.forEach((name, i) => {
    const head = document.createElement("th");
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = name;
    button.addEventListener("click", () => {
      order = { column: i, down: order.column === i && !order.down };
      table();
    });
    head.append(button);
    line.append(head);
  });
}

function csv() {
  const quoted = (cell) => {
    let text = cell === null ? "" : String(cell);
    if (typeof cell === "string" && /^\s*[=+\-@]/.test(text)) text = "'" + text; // a spreadsheet must not run it
    return /[",\n\r]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  };
  const lines = [data.results.columns, ...data.results.rows].map((row) => row.map(quoted).join(","));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([lines.join("\r\n") + "\r\n"], { type: "text/csv" }));
  link.download = "results.csv";
  link.click();
  URL.revokeObjectURL(link.href);
}

const figures = [...waiting];

// A figure is drawn when it comes near the window, and the others one by one while the browser has nothing to do.
function begin() {
  const near = new IntersectionObserver((entries) => {
    for (const one of entries) if (one.isIntersecting && waiting.has(one.target.id)) draw(one.target.id);
  }, { rootMargin: "200px" });
  for (const id of figures) near.observe(element(id));
  const idle = window.requestIdleCallback || ((work) => setTimeout(work, 20)); // not all browsers have it
  const next = () => {
    if (waiting.size === 0) return near.disconnect();
    draw([...waiting][0]);
    idle(next);
  };
  idle(next);
}

function again() {
  for (const id of figures) if (!waiting.has(id)) draw(id);
}

// On paper the page is light and narrow, whatever the screen is.
function printed(on) {
  document.documentElement.classList.toggle("printed", on);
  figures.forEach(draw);
}

if (data.dial) {
  meanings();
  element("radius").addEventListener("input", turn);
}
if (data.maps) element("map").addEventListener("change", () => draw("fig-map"));
element("filter").addEventListener("input", table);
element("csv").addEventListener("click", csv);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
window.addEventListener("beforeprint", () => printed(true));
window.addEventListener("afterprint", () => printed(false));
if (data.dial) turn();
heads();
table();
document.addEventListener("DOMContentLoaded", begin); // Plotly comes after this script: text and table do not wait for it
