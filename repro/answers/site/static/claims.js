// Tables of claims, of provenance and of many columns: label each cell with its column, for cards on narrow screens; a row of one line opens
// by a click or Enter; a filter by text, and by verdict where there are any, stands above the tables that it filters.
"use strict";

const rowsOf = (table) => [...table.tBodies[0].rows];
const plain = (text) => text.toLowerCase().replace(/\s+/g, " ").trim();
const spelled = (text) => text.replace(/\bC(\d+) to C(\d+)/g, (_, first, last) =>
  Array.from({ length: last - first + 1 }, (_, i) => `C${+first + i}`).join(" "));

function labelled(table) {
  const names = [...table.tHead.rows[0].cells].map((cell) => cell.textContent.trim());
  for (const row of rowsOf(table)) {
    [...row.cells].forEach((cell, i) => (cell.textContent.trim() ? (cell.dataset.label = names[i]) : cell.classList.add("empty")));
  }
}

function opened(table) {
  table.classList.add("short");
  for (const row of rowsOf(table)) {
    row.tabIndex = 0;
    row.addEventListener("click", () => row.classList.toggle("whole"));
    row.addEventListener("keydown", (event) => event.key === "Enter" && row.classList.toggle("whole"));
  }
}

// The rows that are counted, each with the row that names its group: the last one before it in which only the first cell is filled.
function grouped(tables) {
  return tables.flatMap((table) => {
    let head = null;
    return rowsOf(table).flatMap((row) => {
      if (row.cells.length > 1 && [...row.cells].slice(1).every((cell) => cell.classList.contains("empty"))) {
        head = row;
        return [];
      }
      const verdicts = new Set([...row.querySelectorAll(".verdict")].map((chip) => chip.textContent));
      return [{ row, head, verdicts, text: plain(spelled(`${head?.textContent ?? ""} ${row.textContent}`)) }];
    });
  });
}

// A text that begins or ends with a number finds this number whole: "C1" is not in "C10".
function pattern(words) {
  const wanted = plain(words);
  const escaped = wanted.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return new RegExp((/^\d/.test(wanted) ? "(?:^|\\D)" : "") + escaped + (/\d$/.test(wanted) ? "(?!\\d)" : ""));
}

function filtered(tables) {
  const rows = grouped(tables);
  if (!rows.length) return;
  const example = rows[0].row.cells[0].textContent.trim().split(/[.:,]/)[0];
  const words = Object.assign(document.createElement("input"), { type: "search", placeholder: `text in a row, as ${example}` });
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
  const title = document.querySelector("article h1");
  // several tables are hidden with their sections, one table alone
  const sections = new Set((tables.length > 1 ? tables : []).map((table) => table.closest("section")).filter((each) => each && !each.contains(title)));

  function show() {
    const wanted = pattern(words.value);
    for (const { row, head } of rows) {
      row.hidden = true;
      if (head) head.hidden = true;
    }
    const shown = rows.filter(({ text, verdicts }) => wanted.test(text) && (verdict.value === "" || verdicts.has(verdict.value)));
    for (const { row, head } of shown) {
      row.hidden = false;
      if (head) head.hidden = false;
    }
    for (const table of tables) table.hidden = rowsOf(table).every((row) => row.hidden);
    for (const section of sections) section.hidden = tables.every((table) => table.hidden || !section.contains(table));
    for (const fold of folds) fold.open = words.value.trim() !== "" || verdict.value !== "";
    count.textContent = `${shown.length} of ${rows.length} rows`;
  }

  words.addEventListener("input", show);
  verdict.addEventListener("change", show);
  const choose = document.createElement("div");
  choose.className = "choose";
  choose.append(words, ...(verdict.length > 1 ? [verdict] : []), count);
  const around = [...sections].find((section) => section.contains(tables[0])) ?? tables[0].closest("details") ?? tables[0].closest(".table-wrapper");
  around.before(choose);
  show();
}

// The tables of claims of which a row has an id, where links lead: each claim once; else the first one.
function chosen(tables) {
  const claims = tables.filter((table) => table.classList.contains("claims"));
  const linked = claims.filter((table) => rowsOf(table).some((row) => row.querySelector("[id]")));
  return linked.length ? linked : claims.slice(0, 1);
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
  const claims = chosen(tables);
  const wanted = claims.length ? claims : cut;
  if (wanted.length) filtered(wanted);
});
