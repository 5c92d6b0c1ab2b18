// Curves over the run, a line a GPU: temperature, clock, power, rate. Each has its end labelled, for lines that cross;
// many GPUs have the outermost ones labelled.

const CURVES = [
  { key: "temperature_c", name: "Temperature", unit: "\u00b0C" },
  { key: "sm_mhz", name: "SM clock", unit: "MHz" },
  { key: "power_w", name: "Power", unit: "W" },
  { key: "memory_temperature_c", name: "Memory temperature", unit: "\u00b0C" },
];
// as wide as a phone has room for: scaled down, nobody could read it
const WIDE = Math.max(300, Math.min(520, innerWidth - 54)), HIGH = 190, LEFT = 52, BOTTOM = 24, RIGHT = 74, TOP = 12;

// Ticks at round numbers, three to six of them.
function ticks(least, most) {
  const rough = (most - least) / 4, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((m) => m * power >= rough) * power, out = [];
  for (let v = Math.ceil(least / step) * step; v <= most + step / 1e6; v += step) out.push(v);
  return out;
}

const tick = (v) => Number.isInteger(v) ? thousands(v) : number(v);

const sinceBegin = (l) => (l.t_ns - data.lines[0].t_ns) / 1e9;

function seriesOf(samples, key) {
  const by = new Map();
  for (const s of samples) for (const g of s.gpus) {
    if (!(g[key] >= 0)) continue;
    if (!by.has(g.gpu)) by.set(g.gpu, []);
    by.get(g.gpu).push([sinceBegin(s), g[key]]);
  }
  return by;
}

// "GPU 0", or "GPU 0 +3" where others end at the same place.
function endLabels(by, y) {
  const ends = [...by].map(([gpu, p]) => ({ gpu, y: y(p[p.length - 1][1]), more: 0 })).sort((a, b) => a.y - b.y);
  const kept = [];
  for (const e of ends) {
    const last = kept[kept.length - 1];
    if (last && e.y - last.y < 14) last.more++;
    else kept.push(e);
  }
  return kept.map((e) => svg("text", { class: "end", x: WIDE - RIGHT + 5, y: e.y + 4 },
    `GPU ${e.gpu}` + (e.more ? ` +${e.more}` : "")));
}

// Those that have room for their name; the longest come first.
function named(windows, x, end) {
  const all = windows.map((w, i) => {
    const next = i + 1 < windows.length ? windows[i + 1].at : end;
    return { ...w, from: x(w.at), to: x(w.at) + 6 * w.measure.length + 8, long: next - w.at };
  });
  const kept = [];
  for (const w of all.sort((a, b) => b.long - a.long))
    if (kept.every((k) => w.to <= k.from || k.to <= w.from)) kept.push(w);
  return kept;
}

function curve(samples, windows, of) {
  const by = seriesOf(samples, of.key), values = [...by.values()].flat().map((p) => p[1]);
  if (values.length < 2) return null;
  let least = Math.min(...values), most = Math.max(...values);
  const pad = Math.max((most - least) * 0.1, most * 0.02, 1);
  least = Math.max(0, least - pad);
  most += pad;
  const end = sinceBegin(samples[samples.length - 1]) || 1, inner = WIDE - LEFT - RIGHT;
  const x = (t) => LEFT + inner * Math.min(1, t / end);
  const y = (v) => TOP + (HIGH - TOP - BOTTOM) * (1 - (v - least) / (most - least));
  const grid = ticks(least, most).flatMap((v) => [
    svg("line", { class: "grid", x1: LEFT, x2: WIDE - RIGHT, y1: y(v), y2: y(v) }),
    svg("text", { class: "head", x: LEFT - 6, y: y(v) + 4, "text-anchor": "end" }, tick(v))]);
  const seen = windows.filter((w) => w.at < end);
  const marks = seen.map((w) =>
    svg("line", { class: "window", x1: x(w.at), x2: x(w.at), y1: TOP, y2: HIGH - BOTTOM }));
  const names = named(seen, x, end).map((w) =>
    svg("text", { class: "head", x: w.from + 3, y: TOP + 9 }, w.measure));
  const lines = [...by].map(([gpu, points], i) => svg("path", { class: "line l" + (i % 8),
    d: points.map(([t, v], n) => `${n ? "L" : "M"}${x(t).toFixed(1)} ${y(v).toFixed(1)}`).join("") },
  svg("title", {}, `GPU ${gpu}: ${number(Math.min(...points.map((p) => p[1])))} to ` +
    `${number(Math.max(...points.map((p) => p[1])))} ${of.unit}`)));
  const axis = [svg("text", { class: "head", x: LEFT, y: HIGH - 6 }, "0 s"),
    svg("text", { class: "head", x: WIDE - RIGHT, y: HIGH - 6, "text-anchor": "end" }, seconds(end))];
  return el("figure", {}, el("figcaption", {}, el("b", {}, of.name), " " + of.unit),
    svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": `${of.name} of ${by.size} GPUs over ` +
      `${seconds(end)}: ${number(Math.min(...values))} to ${number(Math.max(...values))} ${of.unit}` },
    ...grid, ...marks, ...names, ...lines, ...endLabels(by, y), ...axis));
}

function curves() {
  const samples = of("sample");
  if (samples.length < 2) return null;
  const isMark = (l) => l.type === "window" || (l.type === "begin" && !["all", "gpu"].includes(l.test));
  const windows = data.lines.filter(isMark).map((l) => ({ at: sinceBegin(l), measure: l.measure || l.test }));
  return section("curves", "Health over the run", "A line a GPU; dotted: where another number type, the memory or " +
    "another test has its turn.", el("div", { class: "curves" },
    CURVES.map((c) => curve(samples, windows, c)).filter(Boolean)));
}
