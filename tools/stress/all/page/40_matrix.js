// Matrices of links: a cell a link, from row to column. The better, the fuller the colour; what failed has a frame and
// an exclamation mark, so that no one has to see colours.

const CELL = 56, EDGE = 46;

function matrixCell(l, x, y, least, most) {
  const less = l.unit === "ns", span = most - least;
  const good = span > 0.02 * most ? (less ? most - l.value : l.value - least) / span : 1;
  const text = `GPU ${l.from} to GPU ${l.to}: ${number(l.value)} ${l.unit}` +
    (l.rule ? `, ${bounded(l)}: ${l.rule}` : "");
  return svg("g", { class: l.failed ? "cell failed" : "cell" }, svg("title", {}, text),
    svg("rect", { x: x + 1, y: y + 1, width: CELL - 2, height: CELL - 18, rx: 5,
      "fill-opacity": (0.1 + 0.4 * good).toFixed(3) }),
    svg("text", { x: x + CELL / 2, y: y + 24, "text-anchor": "middle" }, number(l.value) + (l.failed ? " !" : "")));
}

function matrixOf(name, lines) {
  const ids = [...new Set(lines.flatMap((l) => [l.from, l.to]))].sort((a, b) => a - b), high = CELL - 16;
  const values = lines.map((l) => l.value), at = (id) => EDGE + ids.indexOf(id) * CELL;
  const top = (id) => 26 + ids.indexOf(id) * high;
  const width = EDGE + ids.length * CELL + 4, height = 26 + ids.length * high + 4;
  const label = `${name}, ${lines[0].unit}: ${lines.length} links from ${number(Math.min(...values))} to ` +
    `${number(Math.max(...values))}, ${lines.filter((l) => l.failed).length} failed`;
  const heads = ids.flatMap((id) => [
    svg("text", { class: "head", x: at(id) + CELL / 2, y: 18, "text-anchor": "middle" }, "GPU " + id),
    svg("text", { class: "head", x: EDGE - 6, y: top(id) + 24, "text-anchor": "end" }, "GPU " + id)]);
  return el("figure", {}, el("figcaption", {}, el("b", {}, name), ` ${lines[0].unit}`),
    svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, ...heads,
      ...lines.map((l) => matrixCell(l, at(l.to), top(l.from), Math.min(...values), Math.max(...values)))));
}

function matrices() {
  const links = of("link"), names = [...new Set(links.map((l) => l.measure))];
  if (!links.length) return null;
  return section("links", "Links", "From row to column, one at a time. A frame and ! : it failed. The pointer over a " +
    "cell says what it was held to.",
  el("div", { class: "matrices" }, names.map((name) => matrixOf(name, links.filter((l) => l.measure === name)))));
}

function hostLinks() {
  const links = of("host_link");
  if (!links.length) return null;
  return section("host", "Links to the host", "Copies from and to pinned memory of each NUMA node.", table(
    [{ name: "way" }, { name: "memory" }, { name: "GB/s", num: true }, { name: "held to", long: true }],
    links.map((l) => ({ bad: l.failed, cells: [l.from < 0 ? `host to GPU ${l.to}` : `GPU ${l.from} to host`,
      `node ${l.node}`, number(l.value), l.rule ? `${bounded(l)}: ${l.rule}` : "not judged"] }))));
}
