(() => {
  "use strict";
  document.body.classList.add("interactive");

  // the legend hides and shows an algorithm in every picture
  const hidden = new Set();
  for (const button of document.querySelectorAll("[data-toggles]")) {
    button.addEventListener("click", () => {
      const index = button.dataset.toggles;
      const off = !hidden.delete(index) && Boolean(hidden.add(index));
      button.setAttribute("aria-pressed", String(!off));
      for (const part of document.querySelectorAll(`.plot [data-series="${index}"]`)) part.classList.toggle("hidden", off);
    });
  }

  // the pointer over a curve picture shows the values at that step
  const human = (value, unit) => {
    if (value === null) return "–";
    const step = value ? Math.min(6, Math.max(0, Math.floor(Math.log10(Math.abs(value)) / 3))) : 0;
    return `${Number((value / 1000 ** step).toPrecision(3))} ${["", "k", "M", "G", "T", "P", "E"][step]}${unit}`.trim();
  };
  const make = (figure, name) => figure.appendChild(Object.assign(document.createElement("div"), { className: name, hidden: true }));
  const data = JSON.parse(document.getElementById("hover")?.textContent || "{}");
  for (const [key, chart] of Object.entries(data)) {
    const figure = document.querySelector(`[data-picture="${key}"]`);
    const plot = figure.querySelector(".plot");
    const cross = make(figure, "cross");
    const tip = make(figure, "tip");
    const [left, top, right, bottom] = chart.box;
    plot.addEventListener("pointermove", (event) => {
      const box = plot.getBoundingClientRect();
      const share = ((event.clientX - box.left) / box.width - left) / (right - left);
      cross.hidden = tip.hidden = share < 0 || share > 1;
      if (cross.hidden) return;
      const wanted = chart.start + share * (chart.end - chart.start);
      let at = 0;
      chart.steps.forEach((step, i) => { if (Math.abs(step - wanted) < Math.abs(chart.steps[at] - wanted)) at = i; });
      const offset = box.left - figure.getBoundingClientRect().left;
      const above = box.top - figure.getBoundingClientRect().top;
      const place = offset + box.width * (left + ((chart.steps[at] - chart.start) / (chart.end - chart.start)) * (right - left));
      Object.assign(cross.style, { left: `${place}px`, top: `${above + top * box.height}px`, height: `${(bottom - top) * box.height}px` });
      tip.replaceChildren(Object.assign(document.createElement("b"), { textContent: `${chart.over} ${chart.steps[at].toLocaleString("en-GB")}` }));
      const shown = chart.series.filter((series) => !hidden.has(String(series.index)));
      for (const series of shown.sort((one, other) => other.mean[at] - one.mean[at])) {
        const line = document.createElement("div");
        const swatch = document.querySelector(`[data-toggles="${series.index}"] .swatch`).cloneNode(true);
        const error = series.error[at] === null ? "" : ` ± ${human(series.error[at], chart.unit)}`;
        line.append(swatch, `${series.name}: ${human(series.mean[at], chart.unit)}${error}`);
        tip.append(line);
      }
      const flip = place + tip.offsetWidth + 24 > figure.clientWidth;
      Object.assign(tip.style, { left: flip ? "auto" : `${place + 12}px`, right: flip ? `${figure.clientWidth - place + 12}px` : "auto", top: `${above + top * box.height}px` });
    });
    plot.addEventListener("pointerleave", () => { cross.hidden = tip.hidden = true; });
  }
})();
