"use strict";
(function () {
  const data = (name) => JSON.parse(document.getElementById("data-" + name).textContent);
  const all = (selector, root) => Array.from((root || document).querySelectorAll(selector));
  const views = new Map();

  // ---- Charts: those in closed parts are drawn when they are opened

  const MM = 96 / 25.4;
  function printed(element) {
    return Math.round((element.closest(".wide") ? 150 : 84) * MM);
  }

  function draw(element) {
    if (views.has(element)) return null;
    views.set(element, null);
    const name = element.id.slice("chart-".length);
    const options = { mode: "vega-lite", actions: false, renderer: "svg", tooltip: { offsetX: 14, offsetY: 14 } };
    return vegaEmbed(element, data(name), options).then(
      (result) => {
        views.set(element, result.view);
        element.setAttribute("data-drawn", "yes");
      },
      (error) => {
        element.textContent = "This chart could not be drawn: " + error.message;
        console.error(error);
      }
    );
  }

  const isVisible = (element) => !element.closest("details:not([open])");
  const drawVisible = () => Promise.all(all(".chart").filter(isVisible).map(draw));

  // On paper a chart has its own width, so that the text of all charts has one size.
  let onPaper = false;
  function fit(paper) {
    if (paper === onPaper) return;
    onPaper = paper;
    for (const [element, view] of views) {
      if (view) view.width(paper ? printed(element) : element.clientWidth).run();
    }
  }
  matchMedia("print").addEventListener("change", (event) => fit(event.matches));
  addEventListener("beforeprint", () => fit(true));
  addEventListener("afterprint", () => fit(false));

  // ---- A chart's rows as a table, made when it is first asked for

  function list(details) {
    if (!details.open || details.querySelector("table")) return;
    const spec = data(details.dataset.chart);
    const columns = spec.usermeta.columns;
    const table = document.createElement("table");
    const row = (parent, kind, values) => {
      const line = parent.appendChild(document.createElement("tr"));
      for (const value of values) {
        const cell = line.appendChild(document.createElement(kind));
        if (kind === "th") cell.scope = "col";
        if (typeof value === "number") cell.className = "number";
        cell.textContent = value === null ? "–" : value;
      }
    };
    row(table.createTHead(), "th", columns.map((column) => column.title));
    const body = table.createTBody();
    for (const values of spec.datasets.rows) row(body, "td", columns.map((column) => values[column.field]));
    const region = details.appendChild(document.createElement("div"));
    region.className = "table";
    region.append(table);
    scrollers();
  }

  // ---- Tables: the keyboard stops only at those that scroll

  function scrollers() {
    for (const region of all(".table, .whole")) {
      const scrolls = region.scrollWidth > region.clientWidth + 1 || region.scrollHeight > region.clientHeight + 1;
      if (scrolls) {
        const caption = region.querySelector("caption");
        region.tabIndex = 0;
        region.setAttribute("role", "region");
        region.setAttribute("aria-label", caption ? caption.textContent : "Values");
      } else {
        for (const name of ["tabindex", "role", "aria-label"]) region.removeAttribute(name);
      }
    }
  }

  const text = (row, column) => row.cells[column].textContent.trim();
  function sortBy(table, column, head) {
    const falling = head.getAttribute("aria-sort") !== "descending";
    all("th", table).forEach((th) => th.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", falling ? "descending" : "ascending");
    const isNumber = head.classList.contains("number");
    const key = (row) => (isNumber ? parseFloat(text(row, column).replace(/,/g, "")) : text(row, column));
    const rows = Array.from(table.tBodies[0].rows, (row) => [key(row), row]);
    rows.sort(([a], [b]) => {
      if (!isNumber) return a.localeCompare(b, undefined, { numeric: true }) * (falling ? -1 : 1);
      if (isNaN(a) || isNaN(b)) return isNaN(a) - isNaN(b);
      return falling ? b - a : a - b;
    });
    table.tBodies[0].append(...rows.map(([, row]) => row));
  }

  function makeSortable(table) {
    all("thead th", table).forEach((head, column) => {
      if (!head.textContent.trim() || head.querySelector("details")) return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => sortBy(table, column, head));
    });
  }

  function makeSearchable(region) {
    const rows = Array.from(region.querySelector("tbody").rows);
    if (rows.length < 10) return;
    const label = document.createElement("label");
    label.className = "find";
    const input = document.createElement("input");
    input.type = "search";
    const shown = document.createElement("span");
    shown.setAttribute("role", "status");
    label.append("Find ", input, shown);
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let n = 0;
      for (const row of rows) {
        const content = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => content.includes(word));
        n += !row.hidden;
      }
      shown.textContent = words.length ? n + " of " + rows.length + " rows" : "";
    });
    region.before(label);
  }

  for (const region of all(".listing, .sortable")) {
    if (!region.querySelector("tbody tr")) continue;
    makeSortable(region.querySelector("table"));
    makeSearchable(region);
  }
  for (const details of all("details")) {
    details.addEventListener("toggle", () => {
      if (details.matches(".values")) list(details);
      drawVisible().then(scrollers);
    });
  }
  addEventListener("resize", scrollers);
  drawVisible().then(() => {
    scrollers();
    document.documentElement.setAttribute("data-ready", "yes");
  });
})();
