"use strict";
// Moves the dial, chooses the map, sorts, filters and downloads the table, shows the numbers behind the marks, and saves
// figures. All contents are in the page already.
const element = (id) => document.getElementById(id);
const radius = element("radius");
const map = element("map");
const body = element("table").tBodies[0];
const results = [...body.rows]; // in the order of the tells
const first = Number(body.dataset.first); // the number of results before the table
const heads = [...element("table").tHead.rows[0].cells];

function turn() {
  const at = Number(radius.value);
  for (const stops of document.querySelectorAll(".stops")) {
    [...stops.children].forEach((stop, i) => stop.classList.toggle("shown", i === at));
  }
  const stop = element("dial-stops").children[at];
  element("radius-value").textContent = stop.dataset.name;
  radius.setAttribute("aria-valuetext", "radius " + stop.dataset.name);
  for (const end of ["x1", "x2"]) element("dial-mark").setAttribute(end, stop.dataset.at);
}

function choose() {
  document.querySelectorAll(".map").forEach((one, i) => { one.hidden = i !== map.selectedIndex; });
}

// A cell is a number, with all its digits, or a text. The first one is a link.
function value(cell) {
  const number = cell.querySelector("data");
  return number ? number.value : cell.textContent;
}

const numeric = (cell) => cell.firstElementChild !== null;

function compare(a, b) {
  const [first, second] = [value(a), value(b)];
  if (first === "" || second === "") return (first === "") - (second === "");
  return numeric(a) && numeric(b) ? first - second : first.localeCompare(second);
}

function sort(column) {
  const down = heads[column].getAttribute("aria-sort") === "ascending";
  heads.forEach((head, i) => head.setAttribute("aria-sort", i !== column ? "none" : down ? "descending" : "ascending"));
  const sorted = [...results].sort((a, b) => (down ? -1 : 1) * compare(a.cells[column], b.cells[column]));
  body.append(...sorted);
}

function filter() {
  const wanted = element("filter").value.toLowerCase();
  for (const row of results) {
    row.hidden = ![...row.cells].some((cell) => (cell.textContent + " " + value(cell)).toLowerCase().includes(wanted));
  }
  element("shown").textContent = results.filter((row) => !row.hidden).length + " of " + results.length + " shown";
}

function csv() {
  const quoted = (cell) => {
    let text = value(cell);
    if (!numeric(cell) && /^\s*[=+\-@]/.test(text)) text = "'" + text; // a spreadsheet must not run it
    return /[",\n\r]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  };
  const names = heads.map((head) => head.firstElementChild);
  const lines = [names, ...results.map((row) => [...row.cells])].map((cells) => cells.map(quoted).join(","));
  download(lines.join("\r\n") + "\r\n", "text/csv", "results.csv");
}

function download(text, type, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

// --- The numbers behind the marks: each figure is read once, when it is first pointed at or focused. ---

const tip = element("tip");
const read = new Map(); // figure -> its data
let shown = null; // the figure and the datum that are shown

// A position along an axis, from 0 to 1, as a value in words.
function named(axis, at) {
  if (axis.kind === "labels") return axis.values[Math.min(Math.floor(at * axis.values.length), axis.values.length - 1)];
  let number = axis.low + at * (axis.high - axis.low);
  if (axis.kind === "factors") return String(Number((10 ** number).toPrecision(4)));
  const step = 10 ** (Math.floor(Math.log10(axis.high - axis.low)) - 3); // places have five digits
  number = Math.round(number / step) * step;
  if (axis.kind === "whole") number = Math.round(number);
  return axis.kind === "percentages" ? (100 * number).toFixed(1) + "%" : String(Number(number.toPrecision(6)));
}

function rows(mark) {
  return (mark.dataset.rows || "").split(" ").filter(Boolean).flatMap((range) => {
    const [first, last] = range.split("-").map(Number);
    return Array.from({ length: last - first + 1 }, (_, i) => first + i);
  });
}

const share = (one, name) => parseFloat(one.getAttribute(name)) / 100;

// The vertices of a path in an area of 1000 times 1000, as shares from the left and from below.
function vertices(path) {
  const found = [...path.getAttribute("d").matchAll(/[ML](\S+?) (\S+?)(?=[MLZh]|$)/g)];
  return found.map((one) => [one[1] / 1000, 1 - one[2] / 1000]);
}

// The places of the data of one mark: [across, up, further words].
function places(mark, axes) {
  const kind = mark.dataset.kind;
  if (kind === "points") {
    const dots = mark.querySelector(".dots");
    if (dots) return vertices(dots);
    return [...mark.querySelectorAll("circle, g > svg")].map((one) =>
      one.tagName === "circle" ? [share(one, "cx"), 1 - share(one, "cy")] : [share(one, "x"), 1 - share(one, "y")]);
  }
  if (kind === "strip") return [...mark.querySelectorAll("svg")].map((one) => [share(one, "x"), 1.02]);
  if (kind === "line") return [...mark.querySelectorAll(".through")].flatMap(vertices);
  if (kind === "rule") return [...mark.querySelectorAll("line")].map((one) => [share(one, "x1"), 0.5]);
  if (kind === "band") {
    const around = [...mark.querySelectorAll("path")].flatMap(vertices);
    const half = around.length / 2;
    return around.slice(0, half).map(([x, low], i) => {
      const high = around[around.length - 1 - i][1];
      return [x, (low + high) / 2, "from " + named(axes[1], low) + " to " + named(axes[1], high)];
    });
  }
  if (kind === "bars") {
    return [...mark.querySelectorAll("rect")].map((one) => {
      const [x, y, width, height] = ["x", "y", "width", "height"].map((name) => share(one, name));
      const area = [x, 1 - y - height, x + width, 1 - y];
      return axes[0].kind === "percentages" ? [x + width, 1 - y - height / 2, "", area] : [x + width / 2, 1 - y, "", area];
    });
  }
  return [];
}

// The cells of a map: their centres are evenly spread over the image.
function cells(mark, axes) {
  const { z, columns, low, high } = mark.dataset, image = mark.querySelector("image");
  const [left, top, width, height] = ["x", "y", "width", "height"].map((name) => share(image, name));
  const across = Number(columns), up = z.length / 2 / across, found = [];
  const expected = mark.dataset.name.replace("colour: expected ", "");
  for (let i = 0; i < up; i += 1) {
    for (let j = 0; j < across; j += 1) {
      const digits = z.slice(2 * (i * across + j), 2 * (i * across + j) + 2);
      if (digits === "--") continue; // not possible
      const value = Number(low) + (parseInt(digits, 36) / 1295) * (high - low);
      const place = [left + ((j + 0.5) / across) * width, 1 - top - height + ((i + 0.5) / up) * height];
      const start = "the model expects " + expected + " " + Number(value.toPrecision(4));
      found.push({ series: "model", at: place, text: words(start, place, axes, true) });
    }
  }
  return found;
}

function words(start, [x, y], axes, both) {
  const parts = [axes[0].title + " " + named(axes[0], x)];
  if (both && axes[1].title) parts.push(axes[1].title + " " + named(axes[1], y));
  else if (both) parts.push(named(axes[1], y));
  return (start ? start + ": " : "") + parts.join(", ");
}

// A result in the words of its row of the table.
function told(row) {
  const cellsOf = [...results[row].cells];
  const parts = cellsOf.map((cell, i) => [heads[i].textContent.trim(), cell.textContent.trim()]);
  return parts.filter(([name, text]) => text && !["suggestion", "time (UTC)"].includes(name) && name + text !== "failedno")
    .map(([name, text]) => name + " " + text).join(", ");
}

function data(figure) {
  if (read.has(figure)) return read.get(figure);
  const axes = JSON.parse(figure.dataset.axes), found = [];
  for (const mark of figure.querySelectorAll(".mark")) {
    const { kind, name } = mark.dataset, own = rows(mark);
    const hints = mark.dataset.hints ? JSON.parse(mark.dataset.hints) : null;
    if (kind === "cells") { found.push(...cells(mark, axes)); continue; }
    places(mark, axes).forEach((place, i) => {
      const series = name || "bounds";
      const linked = own[i] >= first ? own[i] - first : undefined;
      let text = hints ? hints[i] : words(series, place, axes, kind !== "band" && kind !== "strip" && kind !== "rule");
      if (place[2]) text += ", " + place[2];
      if (linked !== undefined) text = told(linked);
      found.push({ series, at: place, text, row: linked });
    });
  }
  found.forEach((one, i) => { one.index = i; });
  read.set(figure, found);
  return found;
}

function place(figure, [across, up]) {
  const area = figure.querySelector(".marks").getBoundingClientRect();
  return [area.left + across * area.width, area.top + (1 - up) * area.height];
}

function ring(figure, at, kind) {
  const one = document.createElement("span"), own = figure.getBoundingClientRect(), [x, y] = place(figure, at);
  one.className = "ring " + kind;
  one.style.left = x - own.left + "px";
  one.style.top = y - own.top + "px";
  figure.append(one);
}

function clear(kind) {
  document.querySelectorAll(".ring." + kind).forEach((one) => one.remove());
}

function show(figure, datum) {
  clear("now");
  shown = { figure, datum };
  ring(figure, datum.at, "now");
  tip.textContent = datum.text;
  tip.hidden = false;
  const [x, y] = place(figure, datum.at), wide = tip.offsetWidth, room = document.documentElement.clientWidth;
  tip.style.left = Math.max(4, Math.min(x - wide / 2, room - wide - 4)) + window.scrollX + "px";
  tip.style.top = (y > tip.offsetHeight + 16 ? y - tip.offsetHeight - 12 : y + 14) + window.scrollY + "px";
}

function hide() {
  clear("now");
  tip.hidden = true;
  shown = null;
}

function nearest(figure, x, y) {
  let best = null, least = 30 ** 2;
  for (const datum of data(figure)) {
    const [a, b] = place(figure, datum.at), area = datum.at[3];
    let away = (a - x) ** 2 + (b - y) ** 2 + (datum.series === "model" ? 60 : 0);
    if (area) {
      const [left, low] = place(figure, area), [right, high] = place(figure, area.slice(2));
      if (left <= x && x <= right && high <= y && y <= low) away = (low - high) / 1000; // the lower of two bars
    }
    if (away < least) [best, least] = [datum, away];
  }
  return best;
}

function press(event) {
  const figure = event.currentTarget, all = data(figure);
  if (!all.length || event.target !== figure) return;
  const now = shown && shown.figure === figure ? shown.datum : null, index = now ? now.index : -1;
  let next = null;
  if (event.key === "ArrowRight") next = all[Math.min(index + 1, all.length - 1)];
  else if (event.key === "ArrowLeft") next = all[Math.max(index - 1, 0)];
  else if (event.key === "Home") next = all[0];
  else if (event.key === "End") next = all[all.length - 1];
  else if (event.key === "ArrowDown" || event.key === "ArrowUp") { // the next series, at the nearest place
    const names = [...new Set(all.map((one) => one.series))], step = event.key === "ArrowDown" ? 1 : names.length - 1;
    const wanted = now ? names[(names.indexOf(now.series) + step) % names.length] : names[0];
    const some = all.filter((one) => one.series === wanted), from = now ? now.at[0] : 0;
    next = some.reduce((a, b) => (Math.abs(b.at[0] - from) < Math.abs(a.at[0] - from) ? b : a));
  } else if (event.key === "Escape") { hide(); return; }
  else if (event.key === "Enter" && now && now.row !== undefined) { lead(now.row); event.preventDefault(); return; }
  else return;
  event.preventDefault();
  show(figure, next);
}

// From a mark to its row of the table.
function lead(row) {
  if (results[row].hidden) { element("filter").value = ""; filter(); }
  body.querySelectorAll(".chosen").forEach((one) => one.classList.remove("chosen"));
  results[row].classList.add("chosen");
  results[row].querySelector("a").focus();
  results[row].scrollIntoView({ block: "center" });
}

// From a row of the table to its marks in all figures that are visible.
function mark(event) {
  const link = event.target.closest("td a");
  if (!link) return;
  event.preventDefault();
  const row = results.indexOf(link.closest("tr"));
  clear("row");
  hide();
  for (const figure of document.querySelectorAll(".figure")) {
    if (!figure.offsetParent) continue; // a map that is not chosen
    for (const datum of data(figure)) if (datum.row === row) ring(figure, datum.at, "row");
  }
  element("fig-progress-0").scrollIntoView({ block: "center" });
  element("fig-progress-0").focus({ preventScroll: true });
  const own = data(element("fig-progress-0")).find((datum) => datum.row === row);
  if (own) show(element("fig-progress-0"), own);
}

// --- A figure as a file: the marks as they are, and the words where the browser has put them. ---

const DARK = "#1c2430";

function saved(figure) {
  const own = figure.getBoundingClientRect(), area = figure.querySelector(".marks"), inner = area.getBoundingClientRect();
  const legends = [...figure.closest("section").querySelectorAll(".legend")], lines = [];
  const legend = legends.filter((one) => one.compareDocumentPosition(figure) & 4).pop(); // the last one before the figure
  const escape = (text) => text.replace(/[&<>]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[c]);
  for (const one of figure.querySelectorAll(".title, .names span")) {
    const box = one.getBoundingClientRect(), x = box.left - own.left + box.width / 2, y = box.top - own.top + box.height / 2;
    if (!one.textContent) continue;
    const turn = getComputedStyle(one).writingMode === "vertical-rl" ? ` transform="rotate(-90 ${x} ${y})"` : "";
    lines.push(`<text x="${x}" y="${y}"${turn} text-anchor="middle" dominant-baseline="central">${escape(one.textContent)}</text>`);
  }
  let down = own.height + 18;
  for (const one of legend ? legend.children : []) {
    const [sign, name] = [one.firstElementChild, one.lastChild.textContent], color = sign.style.color;
    const dashes = sign.classList.contains("dot") ? "2 4" : sign.classList.contains("dash") ? "6 3" : "none";
    lines.push(sign.textContent
      ? `<text class="sign" x="20" y="${down}" text-anchor="middle" dominant-baseline="central" style="fill: ${color}">`
        + `${sign.textContent}</text>`
      : `<line x1="11" x2="29" y1="${down}" y2="${down}" stroke="${color}" stroke-width="3" stroke-dasharray="${dashes}"/>`);
    lines.push(`<text x="36" y="${down}" dominant-baseline="central">${escape(name.trim())}</text>`);
    down += 18;
  }
  const bar = figure.querySelector(".scale > div");
  if (bar) {
    const box = bar.getBoundingClientRect(), colors = [...bar.style.background.matchAll(/rgb\([^)]*\)/g)].map((one) => one[0]);
    const stops = colors.map((color, i) => `<stop offset="${i / (colors.length - 1)}" stop-color="${color}"/>`).join("");
    lines.push(`<linearGradient id="bar" x1="0" x2="0" y1="1" y2="0">${stops}</linearGradient>`);
    lines.push(`<rect x="${box.left - own.left}" y="${box.top - own.top}" width="${box.width}" height="${box.height}" fill="url(#bar)"/>`);
  }
  const marks = area.cloneNode(true);
  Object.entries({ x: inner.left - own.left, y: inner.top - own.top, width: inner.width, height: inner.height })
    .forEach(([name, number]) => marks.setAttribute(name, number));
  const style = "svg { overflow: visible } .lines { stroke: #dfe3e8 } .stroke { fill: none; vector-effect: non-scaling-stroke; "
    + "stroke-linecap: round; stroke-linejoin: round } .symbol { stroke: #fff; stroke-width: 2px; paint-order: stroke } "
    + `image { image-rendering: pixelated } text { font: 13px system-ui, sans-serif; fill: ${DARK} } .sign { stroke: #5a6472; paint-order: stroke }`;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${own.width} ${down}" width="${own.width}" height="${down}">`
    + `<title>${escape(figure.getAttribute("aria-label"))}</title><style>${style}</style>`
    + `<rect width="100%" height="100%" fill="#fff"/>${new XMLSerializer().serializeToString(marks)}${lines.join("")}</svg>`;
}

for (const figure of document.querySelectorAll(".figure")) {
  figure.tabIndex = 0;
  figure.setAttribute("aria-describedby", "tip");
  figure.addEventListener("pointermove", (event) => {
    const datum = nearest(figure, event.clientX, event.clientY);
    if (!datum) { hide(); return; }
    if (!shown || shown.datum !== datum) show(figure, datum);
  });
  const leave = () => { if (shown && shown.figure === figure) hide(); };
  figure.addEventListener("pointerleave", leave); // also if the page scrolls under the mouse
  figure.addEventListener("blur", leave);
  figure.addEventListener("keydown", press);
  figure.addEventListener("click", (event) => {
    const datum = nearest(figure, event.clientX, event.clientY);
    if (datum && datum.row !== undefined && event.detail === 2) lead(datum.row); // two clicks
  });
  const save = document.createElement("button");
  save.type = "button";
  save.className = "save";
  save.textContent = "SVG";
  save.title = "Save this figure as SVG";
  save.setAttribute("aria-label", "Save as SVG: " + figure.getAttribute("aria-label"));
  save.addEventListener("click", () => download(saved(figure), "image/svg+xml", figure.id + ".svg"));
  figure.append(save);
}

if (radius) {
  radius.addEventListener("input", turn);
  turn(); // a browser may remember where the dial was
}
if (map) {
  map.addEventListener("change", choose);
  choose();
}
heads.forEach((head, i) => head.firstElementChild.addEventListener("click", () => sort(i)));
element("filter").addEventListener("input", filter);
element("csv").addEventListener("click", csv);
body.addEventListener("click", mark);
filter();
