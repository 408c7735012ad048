"use strict";
// Moves the dial, chooses the map, and sorts, filters and downloads the table. All contents are in the page already.
const element = (id) => document.getElementById(id);
const radius = element("radius");
const map = element("map");
const body = element("table").tBodies[0];
const results = [...body.rows]; // in the order of the tells
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

// A cell is a number, with all its digits, or a text.
function value(cell) {
  const number = cell.firstElementChild;
  return number ? number.value : cell.textContent;
}

function compare(a, b) {
  const [first, second] = [value(a), value(b)];
  if (first === "" || second === "") return (first === "") - (second === "");
  return a.firstElementChild && b.firstElementChild ? first - second : first.localeCompare(second);
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
    if (!cell.querySelector("data") && /^\s*[=+\-@]/.test(text)) text = "'" + text; // a spreadsheet must not run it
    return /[",\n\r]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  };
  const names = heads.map((head) => head.firstElementChild);
  const lines = [names, ...results.map((row) => [...row.cells])].map((cells) => cells.map(quoted).join(","));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([lines.join("\r\n") + "\r\n"], { type: "text/csv" }));
  link.download = "results.csv";
  link.click();
  URL.revokeObjectURL(link.href);
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
filter();
