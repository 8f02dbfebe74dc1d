"use strict";
(function () {
  const data = (name) => JSON.parse(document.getElementById("data-" + name).textContent);

  function draw(element) {
    const name = element.id.slice("chart-".length);
    const options = { mode: "vega-lite", actions: false, renderer: "svg", tooltip: { offsetX: 14, offsetY: 14 } };
    return vegaEmbed(element, data(name), options).then(
      () => element.setAttribute("data-drawn", "yes"),
      (error) => {
        element.textContent = "This chart could not be drawn: " + error.message;
        console.error(error);
      }
    );
  }

  // A chart's rows as a table, made when it is first asked for.
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
    region.tabIndex = 0;
    region.setAttribute("role", "region");
    region.setAttribute("aria-label", "Values of the chart");
    region.append(table);
  }

  for (const details of document.querySelectorAll("details.values")) {
    details.addEventListener("toggle", () => list(details));
  }
  Promise.all(Array.from(document.querySelectorAll(".chart"), draw)).then(() =>
    document.documentElement.setAttribute("data-ready", "yes")
  );
})();
