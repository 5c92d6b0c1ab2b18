// Tables: sorted by a click on a heading, filtered by a word, shown in parts.

const ROWS_AT_ONCE = 60;

// columns: [key, heading, {num, show, long}]
function table(id, columns, rows, sortBy, filterLabel) {
  let by = sortBy, down = true, shown = ROWS_AT_ONCE, word = "";
  const body = el("tbody"), count = el("p", { class: "hint", "aria-live": "polite" });
  const more = el("button", { type: "button" }, "Show all");
  const cell = (r, [key, , o]) => (o && o.show ? o.show(r[key], r) : r[key] === undefined ? "" : r[key]);
  const heads = columns.map(([key, title, o]) => el("th", { class: o && o.num ? "num" : "", scope: "col" },
    el("button", { type: "button", on: { click: () => { down = by === key ? !down : true; by = key; fill(); } } },
      title)));
  function fill() {
    const found = rows.filter((r) => !word || columns.some((c) => String(cell(r, c)).toLowerCase().includes(word)));
    found.sort((a, b) => {
      const x = a[by], y = b[by];
      const d = typeof x === "number" || typeof y === "number" ? (x === undefined ? -1 : x) - (y === undefined ? -1 : y)
        : String(x || "").localeCompare(String(y || ""));
      return down ? -d : d;
    });
    body.replaceChildren(...found.slice(0, shown).map((r) => el("tr", { class: r.bad ? "bad" : "" },
      columns.map((c) => el("td", { class: (c[2] && c[2].num ? "num" : "") + (c[2] && c[2].long ? " long" : "") },
        cell(r, c))))));
    heads.forEach((h, i) => h.setAttribute("aria-sort", columns[i][0] !== by ? "none" : down ? "descending"
      : "ascending"));
    more.hidden = found.length <= shown;
    more.textContent = `Show all ${thousands(found.length)}`;
    count.textContent = rows.length > ROWS_AT_ONCE ? `${thousands(Math.min(found.length, shown))} of ` +
      `${thousands(rows.length)}` : "";
  }
  more.addEventListener("click", () => { shown = Infinity; fill(); });
  const search = rows.length > 12 && el("input", { type: "search", placeholder: filterLabel, "aria-label": filterLabel,
    on: { input: (e) => { word = e.target.value.toLowerCase(); fill(); } } });
  fill();
  return el("div", { id }, search && el("div", { class: "bar" }, search), el("div", { class: "scroll", tabindex: "0",
    role: "region", "aria-label": filterLabel }, el("table", {}, el("thead", {}, el("tr", {}, heads)), body)),
  count, more);
}

const some = (rows, key) => rows.some((r) => r[key] !== undefined && r[key] !== "" && r[key] !== 0);

function comms() {
  const rows = data.comms;
  if (!rows.length) return null;
  const culprits = new Set(data.findings.filter((f) => f.root && f.json.kind === "hang").map((f) => f.json.comm));
  for (const r of rows) {
    r.bad = culprits.has(r.comm);
    r.worst = r.worst_s || 0;
    r.entered = r.entered_max;
  }
  const columns = [["comm", "Communicator", { show: (v) => v.slice(0, 10) + "\u2026" }],
    some(rows, "use") && ["use", "Use"], ["nranks", "Ranks", { num: 1 }],
    rows.some((r) => r.n_seen !== r.nranks) && ["n_seen", "Seen", { num: 1 }],
    some(rows, "n_ops") && ["n_ops", "Operations", { num: 1, show: thousands }],
    some(rows, "bytes") && ["bytes", "Bytes", { num: 1, show: (v) => (v ? bytes(v) : "") }],
    some(rows, "mean_s") && ["mean_s", "Mean time", { num: 1, show: (v) => (v ? seconds(v) : "") }],
    some(rows, "busbw") && ["busbw", "Bus GB/s", { num: 1, show: (v) => (v ? digits(v / 1e9) : "") }],
    some(rows, "wait_s") && ["wait_s", "First waited for last", { num: 1, show: (v) => (v ? seconds(v) : "") }],
    some(rows, "worst") && ["worst", "Worst", { long: 1, show: (v, r) => (v ? `${seconds(v)}: ${r.worst_op} #` +
      `${r.worst_seq}, rank ${r.worst_rank}` : "") }],
    some(rows, "entered") && ["entered", "Collectives entered", { num: 1, show: (v, r) => (v === undefined ? ""
      : r.entered_min === v ? thousands(v) : `${thousands(r.entered_min)}\u2013${thousands(v)}`) }]].filter(Boolean);
  return section("comms", "Communicators", "Times are inferred from outside: an upper bound. \u201cFirst waited for " +
    "last\u201d is the sum of lags over all collectives.",
  table("comms-t", columns, rows, some(rows, "wait_s") ? "wait_s" : "nranks", "Filter communicators"));
}

function ranks() {
  const rows = data.ranks;
  if (!rows.length) return null;
  const named = new Set(data.findings.filter((f) => f.root && f.json.severity !== "info").flatMap((f) => f.json.ranks));
  for (const r of rows) r.bad = named.has(r.rank);
  const columns = [["rank", "Rank", { num: 1 }], ["host", "Host"], ["pid", "Pid", { num: 1 }],
    some(rows, "gpu") && ["gpu", "GPU", { num: 1 }], ["state", "Main thread"],
    some(rows, "at") && ["at", "At", { long: 1 }], some(rows, "steps") && ["steps", "Steps", { num: 1 }],
    some(rows, "last") && ["last", "Times last", { num: 1 }],
    some(rows, "late_s") && ["late_s", "Others waited", { num: 1, show: (v) => (v ? seconds(v) : "") }],
  ].filter(Boolean);
  return section("ranks", "Ranks", "As of the end of the recording. \u201cTimes last\u201d counts collectives that " +
    "this rank entered last, by 1 ms or more.",
  table("ranks-t", columns, rows, some(rows, "late_s") ? "late_s" : "bad", "Filter ranks"));
}

function gpuRow(host, g) {
  return { host, gpu: g.index, name: g.name, answer: g.answer, sm: g.sm_percent, power: g.power_w,
    temp: g.temperature_c,
    clock: g.sm_clock_mhz, slowed: (g.slowed_by || []).join(", "), ecc: g.ecc_uncorrected, uuid: g.uuid,
    bad: g.answer && g.answer !== "answers" };
}

function storage() {
  const rows = data.storage;
  if (!rows.length) return null;
  const columns = [["rank", "Rank", { num: 1, show: (v, r) => (v === undefined ? `pid ${r.pid}` : v) }],
    ["mount", "Mount", { long: 1, show: (v) => v || "not known" }], some(rows, "type") && ["type", "Type"],
    some(rows, "source") && ["source", "Served by", { long: 1 }], ["call", "Calls of kind"],
    ["calls", "Blocked", { num: 1, show: thousands }], ["blocked_s", "In all", { num: 1, show: seconds }],
    ["longest_s", "Longest", { num: 1, show: seconds }], ["file", "Its file", { long: 1 }]].filter(Boolean);
  return section("storage", "Storage", "How long ranks and their children were blocked in calls on files, the " +
    "longest first.", table("storage-t", columns, rows, "blocked_s", "Filter storage"));
}

function machines() {
  const gpus = data.machines.flatMap((m) => m.gpus.map((g) => gpuRow(m.host, g)));
  const ports = data.machines.flatMap((m) => m.ports.map((p) => ({ host: m.host, ...p, bad: p.state === "gone" })));
  const xids = data.machines.flatMap((m) => m.xids.map((x) => ({ host: m.host, ...x })));
  const num = (key, title, unit) => some(gpus, key) && [key, title, { num: 1,
    show: (v) => (v === undefined ? "" : digits(v) + (unit || "")) }];
  const parts = [];
  if (gpus.length) parts.push(el("h3", {}, "GPUs"), table("gpus-t", [["host", "Host"], ["gpu", "GPU", { num: 1 }],
    ["name", "Name"], ["answer", "Driver"], num("sm", "Busy", " %"), num("power", "Power", " W"),
    num("temp", "Temp.", " \u00b0C"), num("clock", "Clock", " MHz"), some(gpus, "slowed") && ["slowed", "Slowed by"],
    some(gpus, "ecc") && ["ecc", "ECC errors", { num: 1 }], ["uuid", "UUID", { long: 1 }]].filter(Boolean), gpus,
  "host", "Filter GPUs"));
  if (ports.length) parts.push(el("h3", {}, "RDMA ports"), table("ports-t", [["host", "Host"], ["device", "Device"],
    ["port", "Port", { num: 1 }], ["netdev", "Netdev"], ["state", "State"], ["rate_gbps", "Gbit/s", { num: 1 }]], ports,
  "host", "Filter ports"));
  if (xids.length) parts.push(el("h3", {}, "Errors of the driver"), table("xids-t", [["host", "Host"],
    ["xid", "XID", { num: 1 }], ["times", "Times", { num: 1 }], ["text", "Text", { long: 1 }]], xids, "xid",
  "Filter errors"));
  if (data.libs.length) parts.push(el("h3", {}, "Libraries of the ranks"), table("libs-t", [["path", "File",
    { long: 1 }], ["build_id", "Build id"], ["n_probes", "Probes", { num: 1 }]], data.libs, "n_probes",
  "Filter libraries"));
  const hosts = data.machines.map((m) => m.host).filter(Boolean);
  return section("machines", "Machines", hosts.length > 8 ? `${thousands(hosts.length)} hosts` : "Hosts: " +
    (hosts.join(", ") || data.host), ...parts, !gpus.length && el("p", { class: "hint" },
    "GPUs were not sampled: no driver, or none that answered."));
}
