"use strict";
// Searching is an extra: without this script the page shows everything.
for (const input of document.querySelectorAll("input[data-table]")) {
  const table = document.getElementById(input.dataset.table);
  const found = document.querySelector(`[data-found="${input.dataset.table}"]`);
  const rows = [...table.tBodies[0].rows].map((row) => [row, row.textContent.toLowerCase()]);
  const search = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const [row, text] of rows) {
      row.hidden = !words.every((word) => text.includes(word));
      count += row.hidden ? 0 : 1;
    }
    found.textContent = words.length ? `${count} of ${rows.length} rows` : `${rows.length} rows`;
  };
  input.closest(".search").hidden = false;
  input.addEventListener("input", search);
  search();
}
