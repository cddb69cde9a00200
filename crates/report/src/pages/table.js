// Sorts and filters the tables of a page.
"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const heads = [...table.tHead.rows[0].cells];

  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => row.cells[column].dataset.sort ?? row.cells[column].textContent;
      const number = (text) => (text === "" ? NaN : Number(text));
      rows.sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        const [m, n] = [number(x), number(y)];
        if (Number.isNaN(m) !== Number.isNaN(n)) return Number.isNaN(m) ? 1 : -1;
        const order = Number.isNaN(m) ? x.localeCompare(y, "en", { numeric: true }) : m - n;
        return down ? -order : order;
      });
      body.append(...rows);
    });
  });

  const controls = document.querySelector(`[data-for="${table.id}"]`);
  if (!controls) continue;
  controls.hidden = false;
  const shown = controls.querySelector("output");
  const apply = () => {
    const words = controls.querySelector("input[type=search]").value.toLowerCase().split(/\s+/);
    const metric = controls.querySelector("select").value;
    const outside = controls.querySelector("input[type=checkbox]")?.checked;
    let count = 0;
    for (const row of rows) {
      const text = row.cells[0].textContent.toLowerCase();
      row.hidden = !(words.every((word) => text.includes(word)) &&
        (!metric || row.dataset.metric === metric) && (!outside || row.dataset.within === "no"));
      count += row.hidden ? 0 : 1;
    }
    table.classList.toggle("one-metric", metric !== "");
    shown.textContent = `${count} of ${rows.length} rows`;
  };
  controls.addEventListener("input", apply);
  apply();
}
