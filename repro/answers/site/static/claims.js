// Above every table of claims: a field for text and a choice of verdicts; rows without them are hidden.
"use strict";

const plain = (text) => text.toLowerCase().replace(/\s+/g, " ").trim();

function filtered(table) {
  const rows = [...table.tBodies[0].rows].map((row) => ({
    row,
    text: plain(row.textContent),
    verdicts: new Set([...row.querySelectorAll(".verdict")].map((chip) => chip.textContent)),
  }));
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

  function show() {
    const wanted = plain(words.value);
    for (const { row, text, verdicts } of rows) {
      row.hidden = !text.includes(wanted) || (verdict.value !== "" && !verdicts.has(verdict.value));
    }
    count.textContent = `${rows.filter(({ row }) => !row.hidden).length} of ${rows.length} claims`;
  }

  words.addEventListener("input", show);
  verdict.addEventListener("change", show);
  const choose = document.createElement("div");
  choose.className = "choose";
  choose.append(words, verdict, count);
  (table.closest(".table-wrapper") ?? table).before(choose);
  show();
}

document.addEventListener("DOMContentLoaded", () => document.querySelectorAll("table.claims").forEach(filtered));
