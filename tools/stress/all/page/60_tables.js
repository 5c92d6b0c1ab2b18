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
