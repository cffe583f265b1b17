// Tables of claims, of provenance and of many columns: label each cell with its column, for cards on narrow screens; a row of one line opens
// by a click or Enter; add a filter by text, and by verdict where there are any, above a paper's claims and its provenance.
"use strict";

const plain = (text) => text.toLowerCase().replace(/\s+/g, " ").trim();

function labelled(table) {
  const names = [...table.tHead.rows[0].cells].map((cell) => cell.textContent.trim());
  for (const row of table.tBodies[0].rows) {
    [...row.cells].forEach((cell, i) => (cell.textContent.trim() ? (cell.dataset.label = names[i]) : cell.classList.add("empty")));
  }
}

function opened(table) {
  table.classList.add("short");
  for (const row of table.tBodies[0].rows) {
    row.tabIndex = 0;
    row.addEventListener("click", () => row.classList.toggle("whole"));
    row.addEventListener("keydown", (event) => event.key === "Enter" && row.classList.toggle("whole"));
  }
}

function filtered(tables) {
  const all = tables.flatMap((table) => [...table.tBodies[0].rows].map((row) => ({
    row,
    text: plain(row.textContent),
    verdicts: new Set([...row.querySelectorAll(".verdict")].map((chip) => chip.textContent)),
  })));
  const linked = all.filter(({ row }) => row.querySelector("[id]")); // each claim once, where links lead
  const rows = linked.length ? linked : all;
  if (!rows.length) return;
  const words = Object.assign(document.createElement("input"), { type: "search", placeholder: "text in a row" });
  words.setAttribute("aria-label", "Show rows with this text");
  const verdict = document.createElement("select");
  verdict.setAttribute("aria-label", "Show rows with this verdict");
  verdict.add(new Option("all verdicts", ""));
  for (const name of [...new Set(rows.flatMap((each) => [...each.verdicts]))].sort()) {
    verdict.add(new Option(`${name} (${rows.filter((each) => each.verdicts.has(name)).length})`, name));
  }
  const count = document.createElement("span");
  count.setAttribute("role", "status");

  const folds = new Set(tables.map((table) => table.closest("details")).filter(Boolean));

  function show() {
    const wanted = plain(words.value);
    for (const { row, text, verdicts } of rows) {
      row.hidden = !text.includes(wanted) || (verdict.value !== "" && !verdicts.has(verdict.value));
    }
    for (const table of tables) {
      table.hidden = [...table.tBodies[0].rows].every((row) => row.hidden);
    }
    for (const fold of folds) fold.open = wanted !== "" || verdict.value !== "";
    count.textContent = `${rows.filter(({ row }) => !row.hidden).length} of ${rows.length} rows`;
  }

  words.addEventListener("input", show);
  verdict.addEventListener("change", show);
  const choose = document.createElement("div");
  choose.className = "choose";
  choose.append(words, ...(verdict.length > 1 ? [verdict] : []), count);
  document.querySelector("article h1").after(choose);
  show();
}

function hinted() {
  const hint = document.createElement("p");
  hint.className = "hint";
  hint.textContent = "Rows are cut to one line: click one, or press Enter, to read all of it.";
  document.querySelector("article h1").after(hint);
}

document.addEventListener("DOMContentLoaded", () => {
  const tables = [...document.querySelectorAll("table.claims, table.lines, table.cards")];
  tables.forEach(labelled);
  const cut = tables.filter((table) => table.classList.contains("lines"));
  cut.forEach(opened);
  if (cut.length) hinted();
  const claims = tables.filter((table) => table.classList.contains("claims"));
  filtered(claims.length ? claims : cut);
});
