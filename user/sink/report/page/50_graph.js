// Who waits for whom, drawn: the rank that everything waits for on top, what waits for it below.

const NARROW = innerWidth < 560;
const BOX_W = NARROW ? 150 : 264, BOX_GAP = NARROW ? 12 : 22, ROW_GAP = 58, LINE_CHARS = NARROW ? 19 : 35;

function lines(text, most) {
  const out = [];
  let line = "";
  for (let word of clean(text).split(/\s+/)) {
    while (word.length > LINE_CHARS) {
      if (line) out.push(line), line = "";
      out.push(word.slice(0, LINE_CHARS));
      word = word.slice(LINE_CHARS);
    }
    if ((line + " " + word).length > LINE_CHARS) out.push(line), line = word;
    else line = line ? line + " " + word : word;
  }
  if (line) out.push(line);
  return out.length > most ? [...out.slice(0, most - 1), out[most - 1].slice(0, LINE_CHARS - 1) + "\u2026"] : out;
}

function place(g) {
  const rows = [];
  for (const n of g.nodes) (rows[n.depth] = rows[n.depth] || []).push(n);
  const used = rows.filter(Boolean), width = Math.max(...used.map((r) => r.length * (BOX_W + BOX_GAP) - BOX_GAP));
  let y = 2;
  for (const row of used) {
    for (const n of row) {
      n.title2 = lines(n.title, 2);
      n.sub2 = lines(n.sub, 3);
      n.h = 18 + 18 * n.title2.length + 16 * n.sub2.length;
    }
    const h = Math.max(...row.map((n) => n.h)), w = row.length * (BOX_W + BOX_GAP) - BOX_GAP;
    row.forEach((n, i) => { n.x = (width - w) / 2 + i * (BOX_W + BOX_GAP); n.y = y; });
    y += h + ROW_GAP;
  }
  return [width, y - ROW_GAP + 4];
}

function box(n) {
  const g = svg("g", { class: n.type + (n.culprit ? " culprit" : "") },
    svg("rect", { x: n.x, y: n.y, width: BOX_W, height: n.h, rx: n.type === "rank" ? 16 : 6 }));
  n.title2.forEach((t, i) => g.append(svg("text", { class: "title", x: n.x + 12, y: n.y + 23 + 18 * i }, t)));
  n.sub2.forEach((t, i) => g.append(svg("text", { class: "sub", x: n.x + 12,
    y: n.y + 23 + 18 * n.title2.length + 16 * i }, t)));
  return g;
}

function edge(a, b, label) {
  const up = b.y < a.y, ax = a.x + BOX_W / 2, bx = b.x + BOX_W / 2;
  const y1 = up ? a.y : a.y + a.h, y2 = up ? b.y + b.h + 7 : b.y - 7;
  if (Math.abs(a.y - b.y) < 1) { // the two of a deadlock stand side by side
    const right = b.x > a.x, x1 = right ? a.x + BOX_W : a.x, x2 = right ? b.x - 7 : b.x + BOX_W + 7;
    const y = a.y + (right ? 16 : Math.min(a.h, b.h) - 12);
    return svg("g", {}, svg("path", { d: `M${x1} ${y}L${x2} ${y}`, "marker-end": "url(#tip)" }));
  }
  const mid = (y1 + y2) / 2;
  return svg("g", {}, svg("path", { d: `M${ax} ${y1}C${ax} ${mid} ${bx} ${mid} ${bx} ${y2}`,
    "marker-end": "url(#tip)" }),
    svg("text", { class: "label", x: ax + 9, y: up ? y1 - 9 : y1 + 18 }, label));
}

function drawing(g, title) {
  const [w, h] = place(g);
  const words = g.edges.map((e) => `${g.nodes[e.from].title} (${g.nodes[e.from].sub}) waits for ` +
    `${g.nodes[e.to].title}${g.nodes[e.to].sub ? " (" + g.nodes[e.to].sub + ")" : ""}`);
  return el("div", { class: "graph", tabindex: "0", role: "group", "aria-label": title },
    svg("svg", { width: w + 4, height: h, viewBox: `-2 0 ${w + 4} ${h}`, role: "img",
      "aria-label": clean(words.join("; ")) },
    svg("defs", {}, svg("marker", { id: "tip", viewBox: "0 0 8 8", refX: "4", refY: "4", markerWidth: "7",
      markerHeight: "7", orient: "auto-start-reverse" }, svg("path", { d: "M0 0L8 4L0 8z" }))),
    ...g.edges.map((e) => edge(g.nodes[e.from], g.nodes[e.to], e.label)), ...g.nodes.map(box)));
}

function graphs() {
  const drawn = data.findings.filter((f) => f.graph && f.graph.nodes.length);
  if (!drawn.length) return null;
  const hasRoot = drawn.some((f) => f.graph.nodes.some((n) => n.type === "rank"));
  return section("graph", "Who waits for whom", "An arrow leads from an operation to what it waits for. " +
    (hasRoot ? "On top is what waits for nothing: look there."
      : "The arrows lead in a circle: none of them can go on.") +
    " As of when the hang was last reported.",
  ...drawn.flatMap((f) => [drawn.length > 1 && el("h3", {}, `${f.sentence} (${moment(f.open_s)})`),
    drawing(f.graph, f.sentence)]));
}
