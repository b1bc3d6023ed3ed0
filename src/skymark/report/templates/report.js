"use strict";
// Sort a table by a column: numbers by data-value, missing ones last, text by itself.
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const heading = button.closest("th");
    const table = heading.closest("table");
    const column = [...heading.parentNode.children].indexOf(heading);
    const first = heading.dataset.first || "descending";
    const other = first === "ascending" ? "descending" : "ascending";
    const order = heading.getAttribute("aria-sort") === first ? other : first;
    for (const one of heading.parentNode.children) one.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const key = (row) => {
      const cell = row.children[column];
      return "value" in cell.dataset ? Number.parseFloat(cell.dataset.value) : cell.textContent.trim();
    };
    const compare = (a, b) => {
      const [x, y] = [key(a), key(b)];
      if (typeof x === "string" || typeof y === "string") return sign * String(x).localeCompare(String(y));
      if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
      return sign * (x - y);
    };
    const body = table.tBodies[0];
    body.classList.add("sorted");
    body.append(...[...body.rows].sort(compare));
  });
}
