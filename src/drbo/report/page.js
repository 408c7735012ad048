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

function draw(id, figure) {
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
  const figure = data.figures["fig-dial"];
  figure.layout.shapes = [mark(mine.radius, "dot"), mark(stop.radius, "solid")];
  draw("fig-dial", figure);
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
    if (typeof cell === "string" && /^[=+\-@]/.test(text)) text = "'" + text; // a spreadsheet must not run it
    return /[",\n\r]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  };
  const lines = [data.results.columns, ...data.results.rows].map((row) => row.map(quoted).join(","));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([lines.join("\r\n") + "\r\n"], { type: "text/csv" }));
  link.download = "results.csv";
  link.click();
  URL.revokeObjectURL(link.href);
}

function everything() {
  for (const [id, figure] of Object.entries(data.figures)) if (id !== "fig-dial") draw(id, figure);
  if (data.dial) turn();
  if (data.maps) draw("fig-map", data.maps[Number(element("map").value)]);
}

// On paper the page is light and narrow, whatever the screen is.
function printed(on) {
  document.documentElement.classList.toggle("printed", on);
  everything();
}

if (data.dial) {
  meanings();
  element("radius").addEventListener("input", turn);
}
if (data.maps) element("map").addEventListener("change", () => draw("fig-map", data.maps[Number(element("map").value)]));
element("filter").addEventListener("input", table);
element("csv").addEventListener("click", csv);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", everything);
window.addEventListener("beforeprint", () => printed(true));
window.addEventListener("afterprint", () => printed(false));
heads();
table();
everything();
