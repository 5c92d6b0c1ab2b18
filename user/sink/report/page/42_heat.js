// The section of the heat map: the canvas, its buttons, its legend.

function legend(view) {
  const m = view.map, box = el("div", { class: "legend" });
  const draw = () => {
    const c = el("canvas", { width: 180, height: 1, "aria-hidden": "true" }), ctx = c.getContext("2d"), dark = isDark();
    const late = view.metric === "late", top = m.median_s > 0 ? m.median_s : 10, of = late ? LATE : STEP;
    for (let i = 0; i < 180; i++) {
      ctx.fillStyle = `rgb(${mix(of[dark ? "dark" : "light"], i / 179)})`;
      ctx.fillRect(i, 0, 1, 1);
    }
    const swatch = (v, text) => {
      const i = el("i", {});
      i.style.background = `rgb(${colourOf(m, view.metric, dark, v)})`;
      return el("span", {}, i, text);
    };
    box.replaceChildren(el("span", {}, late ? "up to " + seconds(m.late_floor_s) : seconds(m.median_s / 2)), c,
      el("span", {}, late ? seconds(top) + " or more" : seconds(m.median_s * 2)), swatch(0, "not known"),
      ...(late ? [swatch(NEVER, "never came")] : []));
  };
  document.addEventListener("theme", draw);
  return [box, draw];
}

function metricButtons(view, redraw) {
  const names = { late: "Lateness", step: "Step time" };
  const all = Object.keys(names).map((k) => el("button", { type: "button", "aria-pressed": String(k === "late"), on: {
    click: () => {
      view.metric = k;
      all.forEach((b, i) => b.setAttribute("aria-pressed", String(Object.keys(names)[i] === k)));
      redraw();
      view.repaint();
    } } }, names[k]));
  return view.map.by_time ? [] : all;
}

function heatOf(m) {
  const what = `${thousands(m.n_rows)} ranks by ${thousands(m.n_cols)} ${m.by_time ? "slices of time" : "steps"}`;
  const canvas = el("canvas", { tabindex: "0", role: "application", "aria-label": `Heat map, ${what}. Arrows move ` +
    "the cursor, shift and arrows the view, plus and minus zoom, 0 shows all.", "aria-describedby": "heat-readout" });
  const readout = el("p", { class: "readout", "aria-live": "polite" },
    "Point at a cell, or use the arrow keys. Click the map to zoom with the wheel; drag to move; keys + \u2212 0.");
  const view = new HeatView(m, canvas, readout), [box, draw] = legend(view);
  const button = (text, label, f) => el("button", { type: "button", "aria-label": label, on: { click: f } }, text);
  draw();
  view.load().catch((e) => { readout.textContent = "This browser cannot unpack the map: " + e.message; });
  canvas.heatView = view;
  return el("div", { class: "heat" }, data.heat.length > 1 && el("h3", {}, `${m.job || "no job's name"}: ${what}`),
    el("div", { class: "bar" }, metricButtons(view, draw), el("span", { class: "gap" }), box,
      button("\u2212", "Zoom out", () => view.zoom(1 / ZOOM_STEP)), button("+", "Zoom in", () => view.zoom(ZOOM_STEP)),
      button("All", "Show all", () => view.reset())), canvas, readout);
}

function heat() {
  if (!data.heat.length) return section("heat", "Ranks and steps",
    "No step was seen: an autopsy samples for seconds, " +
    "and without probes calls are not seen one by one. ranktrace record shows steps and lateness here.");
  const m = data.heat[0], size = `${thousands(m.n_rows)} ranks by ${thousands(m.n_cols)} ` +
    (m.by_time ? "slices of time" : "steps");
  return section("heat", "Ranks and steps", (data.heat.length > 1 ? "" : size + ". ") + "Lateness: how far behind " +
    "the first rank each rank entered the collective that it was latest in. A bright row is a rank that others wait " +
    "for; triangles mark where findings began.", ...data.heat.map(heatOf));
}
