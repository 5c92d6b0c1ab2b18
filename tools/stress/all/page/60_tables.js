// Rates of GPUs, collectives, the devices, and what the host is.

function rates() {
  const rows = of("rate").filter((r) => r.supported);
  if (!rows.length) return null;
  return section("rates", "Rates of GPUs", "Each is held to its baseline, the node's others, or a row of the table.",
    table([{ name: "GPU" }, { name: "measure" }, { name: "rate", num: true }, { name: "unit" },
      { name: "held to", long: true }],
      rows.map((r) => ({ bad: r.failed || !r.measured, cells: [subjectText(r.subject), r.measure,
        r.measured ? number(r.value) : "not measured", r.unit || "",
        r.rule ? `${bounded(r)}: ${r.rule}` : r.measured ? "not judged: no baseline, no other, no row" : ""] }))));
}

function collectives() {
  const cases = of("case"), bus = of("bus_rate");
  if (!cases.length) return null;
  return section("collectives", "Collectives", "Every element was compared. Bus bandwidth by nccl-tests' factors.",
    table([{ name: "group" }, { name: "collective" }, { name: "type" }, { name: "size", num: true }, { name: "place" },
      { name: "time", num: true }, { name: "bus GB/s", num: true }, { name: "wrong", num: true }],
    cases.map((c) => ({ bad: c.wrong > 0 || !["done", "unsupported"].includes(c.status), cells: [c.group, c.collective,
      c.number, bytes(c.bytes), c.in_place ? "in" : "out", c.status === "done" ? seconds(c.us / 1e6) : c.status,
      number(c.busbw_gbytes_s), c.wrong === undefined ? "" : thousands(c.wrong)] }))),
    bus.length > 0 && el("h3", {}, "Judged"),
    bus.length > 0 && table([{ name: "group" }, { name: "measure" }, { name: "GB/s", num: true },
      { name: "held to", long: true }],
      bus.map((b) => ({ bad: b.failed, cells: [b.group, b.measure, number(b.value), `${bounded(b)}: ${b.rule}`] }))));
}

function scaling() {
  const rows = of("scaling");
  if (!rows.length) return null;
  return section("scaling", "Scaling over sizes", "Efficiency: of the best bus bandwidth of its kind. Linearity: " +
    "time by what lies on the line from the smallest size to the largest; above 1 is slower.",
  table([{ name: "collective" }, { name: "type" }, { name: "size", num: true }, { name: "median", num: true },
    { name: "p99", num: true }, { name: "bus GB/s", num: true }, { name: "efficiency", num: true },
    { name: "linearity", num: true }],
  rows.map((r) => ({ cells: [r.collective, r.number, bytes(r.bytes), seconds(r.us / 1e6), seconds(r.us_p99 / 1e6),
    number(r.busbw_gbytes_s), (100 * r.efficiency).toFixed(0) + " %", number(r.linearity)] }))));
}

// Hundreds of links: of each measure how many were held to a bound, the least, the median and the most.
function portRates() {
  const by = new Map();
  for (const r of of("port_rate")) {
    const key = [r.shape, r.operation, r.measure].join("/");
    by.set(key, [...(by.get(key) || []), r]);
  }
  return [...by.values()].map((rows) => {
    const values = rows.map((r) => r.value).sort((a, b) => a - b), failed = rows.filter((r) => r.failed).length;
    return { bad: failed > 0, cells: [rows[0].shape, rows[0].operation, rows[0].measure, rows[0].unit,
      thousands(rows.length), number(values[0]), number(values[values.length >> 1]), number(values[values.length - 1]),
      failed ? thousands(failed) : ""] };
  });
}

function ports() {
  const rows = of("port_verdict"), known = of("begin", "rdma").flatMap((b) => b.ports || []), rates = portRates();
  const port = (s) => known.find((p) => p.host === s.host && p.device === s.device && p.port === s.port) || {};
  const rose = (v) => Object.entries(v.counters).filter(([, n]) => n).map(([name, n]) => `${name} ${thousands(n)}`);
  if (!rows.length) return null;
  return section("ports", "RDMA ports", "Every byte was compared. Counters: those that rose in the test.",
    table([{ name: "port" }, { name: "host" }, { name: "came to" }, { name: "speed" }, { name: "MTU", num: true },
      { name: "counters", long: true }],
    rows.map((v) => ({ bad: v.faults > 0, cells: [subjectText(v.subject), v.subject.host,
      v.faults ? "failed" : !v.tested ? "not tested" : v.passed ? "passed" : "no fault so far",
      port(v.subject).speed || "", number(port(v.subject).mtu), rose(v).join(", ")] }))),
    rates.length > 0 && el("h3", {}, "Judged"),
    rates.length > 0 && table([{ name: "shape" }, { name: "verb" }, { name: "measure" }, { name: "unit" },
      { name: "links", num: true }, { name: "least", num: true }, { name: "median", num: true },
      { name: "most", num: true }, { name: "failed", num: true }], rates));
}

function devices() {
  const rows = of("verdict");
  if (!rows.length) return null;
  return section("devices", "Devices", "What each test says of each device.", table(
    [{ name: "test" }, { name: "device" }, { name: "name" }, { name: "UUID", long: true }, { name: "came to" },
      { name: "hottest", num: true }, { name: "clocks lowered by" }],
    rows.map((v) => ({ bad: !v.passed, cells: [v.test, subjectText(v.subject), v.name || "", v.subject.uuid || "",
      v.passed ? "passed" : "failed", v.temperature_max_c ? number(v.temperature_max_c) + " \u00b0C" : "",
      v.throttled_by || ""] }))));
}

function inventory() {
  const rows = of("inventory"), notes = of("end").flatMap((e) => (e.notes || []).map((n) => `${e.test}: ${n}`));
  if (!rows.length && !notes.length) return null;
  return section("inventory", "Inventory", "Versions and parts of this host.",
    table([{ name: "part" }, { name: "what", long: true }], rows.map((r) => ({ cells: [r.part, r.text] }))),
    notes.length > 0 && el("h3", {}, "Notes"),
    notes.length > 0 && el("ul", { class: "plain" }, notes.map((n) => el("li", {}, n))));
}
