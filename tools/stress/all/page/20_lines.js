// What the lines of the run say. data: { status, quick, lines }.

const STATUS = ["passed", "failed", "usage", "not possible here"];
const of = (type, test) => data.lines.filter((l) => l.type === type && (!test || l.test === test));
const ended = () => of("end", "all")[0] || {};
const host = () => (data.lines[0] || {}).host || "";
const faultsOf = () => of("fault");

// `to`: of a link between two RDMA ports the other one.
function subjectText(s, to) {
  if (!s) return "";
  const name = (p) => (to.host === s.host ? "" : p.host + "/") + `${p.device}:${p.port}`;
  if (to) return `link ${name(s)} to ${name(to)}`;
  if (s.gpus) return `link GPU ${s.gpus[0]} to GPU ${s.gpus[1]}`;
  if (s.type === "gpu") return `GPU ${s.gpu}`;
  if (s.type === "rank") return `rank ${s.rank} (${s.host}, GPU ${s.gpu})`;
  if (s.type === "port") return `port ${s.port} of ${s.device}`;
  return s.type === "node" ? `node ${s.host}` : "no single device";
}

function number(v) {
  if (v === undefined || v === null) return "";
  if (Math.abs(v) >= 1000) return thousands(Math.round(v));
  return v && Math.abs(v) < 0.1 ? v.toPrecision(3) : digits(v);
}

// "at least 636", "at most 1250 ns": less is better of times alone.
const bounded = (l) => (l.unit === "ns" ? "at most " : "at least ") + number(l.bound);

function table(heads, rows) {
  return el("div", { class: "scroll" }, el("table", {},
    el("thead", {}, el("tr", {}, heads.map((h) => el("th", { class: h.num ? "num" : "", scope: "col" }, h.name)))),
    el("tbody", {}, rows.map((r) => el("tr", { class: r.bad ? "bad" : "" }, r.cells.map((c, i) =>
      el("td", { class: heads[i].num ? "num" : heads[i].long ? "long" : "" }, c)))))));
}
