// Replaces the static figures of a page by interactive ones.
"use strict";
(async () => {
  const figures = [...document.querySelectorAll("figure.chart")];
  if (!figures.length) return;

  // A page that stands alone holds plotly.js compressed.
  const packed = document.getElementById("library");
  if (packed && !window.Plotly) {
    const bytes = Uint8Array.from(atob(packed.textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
    packed.remove();
  }
  if (!window.Plotly) return;

  // Colours are names in the charts; the style sheet knows what they are.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const themed = (value, style, key) => {
    // Only what is a colour: an axis may be called "window".
    if (typeof value === "string" && /color$/.test(key) && /^(series-\d+|ink|axis|grid|window)$/.test(value)) {
      return style.getPropertyValue("--" + value).trim();
    }
    if (Array.isArray(value)) {
      return typeof value[0] === "number" ? value : value.map((v) => themed(v, style, key));
    }
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, themed(v, style, k)]));
    }
    return value;
  };

  const plots = [];
  let following = false;
  const draw = async (figure) => {
    const source = JSON.parse(figure.querySelector("script").textContent);
    // The static picture stays for paper, which is not as wide as the screen.
    const box = figure.querySelector(".plot");
    let plot = box.querySelector(".live");
    if (!plot) {
      box.querySelector("svg")?.classList.add("still");
      plot = document.createElement("div");
      plot.className = "live";
      box.append(plot);
    }
    const style = getComputedStyle(document.documentElement);
    const { data, layout } = themed(source, style);
    const ink = style.getPropertyValue("--ink").trim();
    layout.font = { size: 12, color: ink, family: getComputedStyle(document.body).fontFamily };
    layout.hoverlabel = { bgcolor: style.getPropertyValue("--raised").trim(), font: { color: ink } };
    if (innerWidth < 740) for (const trace of data) if (trace.line) trace.line.width = 1;
    layout.modebar = { bgcolor: "rgba(0,0,0,0)", color: style.getPropertyValue("--faint").trim(), activecolor: ink };
    // Fingers scroll the page; a pointer that hovers zooms the figure.
    const touch = matchMedia("(hover: none)").matches;
    if (touch) layout.dragmode = false;
    const config = { displaylogo: false, responsive: true, displayModeBar: touch ? false : "hover",
      modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
      toImageButtonOptions: { format: "svg", filename: figure.id } };
    await Plotly.react(plot, data, layout, config);
    // A legend of several lines takes room of its own and not the figure's.
    const legend = plot._fullLayout?.legend?._height || 0;
    if (legend > 40 && !box.style.height) {
      box.style.height = `${Math.round(box.clientHeight + legend - 20)}px`;
      await Plotly.Plots.resize(plot);
    }
    if (plots.includes(plot)) return;
    plots.push(plot);
    // Figures over time share their time axis: zooming one zooms all.
    if (figure.dataset.axis === "time") {
      plot.on("plotly_relayout", async (change) => {
        if (following || !Object.keys(change).some((key) => key.startsWith("xaxis."))) return;
        following = true;
        const range = plot.layout.xaxis.range.slice();
        for (const other of document.querySelectorAll('figure[data-axis="time"] .live')) {
          if (other !== plot && other.layout) await Plotly.relayout(other, { "xaxis.range": range.slice() });
        }
        following = false;
      });
    }
    plot.on("plotly_click", (event) => {
      const link = (source.links || {})[event.points[0].text];
      if (link) location.href = link;
    });
  };
  // What is folded away has no size; it is drawn when it is opened.
  const seen = (figure) => !figure.closest("details:not([open])");
  const all = async () => { for (const figure of figures) if (seen(figure)) await draw(figure); };
  await all();
  for (const box of document.querySelectorAll("details")) {
    box.addEventListener("toggle", async () => {
      for (const figure of box.open ? box.querySelectorAll("figure.chart") : []) {
        if (seen(figure)) await draw(figure);
      }
    });
  }
  dark.addEventListener("change", all);
})().catch((error) => console.warn("figures stay static:", error));
