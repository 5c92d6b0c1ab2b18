// Findings on a timeline: each with its sentence and what to do; a consequence stands below its cause.

const SEVERITY = { critical: 2, warning: 1, info: 0 };

function ticks() {
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400];
  const step = steps.find((s) => data.seconds / s <= 8) || data.seconds / 5;
  const out = [];
  const last = innerWidth < 560 ? 0.84 : 0.93; // what is further right would overlap the end's
  for (let t = 0; t < data.seconds; t += step) if (share(t) < last) out.push([t, moment(t)]);
  return [...out, [data.seconds, moment(data.seconds)]];
}

// "  where   job x, host y": label and text; what goes on is indented.
function blockOf(text) {
  const list = el("dl", { class: "block" });
  let dd = null;
  for (const line of String(text || "").split("\n")) {
    const m = /^ {2}(\S+) +(.*)$/.exec(line);
    if (m) list.append(el("dt", {}, m[1]), dd = el("dd", {}, m[2]));
    else if (dd && line.trim()) dd.append("\n" + clean(line.trim()));
  }
  return list;
}

function span(f) {
  const to = f.close_s === undefined ? data.seconds : f.close_s, wait = Math.max(0, to - Math.max(0, f.since_s));
  const upTo = f.close_s === undefined ? " to the end" : " \u2013 " + moment(to);
  return moment(f.since_s) + upTo + (wait > 0 ? " (" + seconds(wait) + ")" : "");
}

function track(f) {
  const to = f.close_s === undefined ? data.seconds : f.close_s, severity = f.json.severity;
  const from = share(f.since_s), open = share(Math.max(f.open_s, f.since_s)), end = Math.max(share(to), open);
  const before = el("i", { class: "before " + severity }), held = el("i", { class: severity });
  before.style.left = percent(from);
  before.style.width = percent(open - from);
  held.style.left = percent(Math.min(open, 0.993));
  held.style.width = percent(end - open);
  return el("div", { class: "track", title: "faint: since the fault began; full: since it was found" },
    open > from && before, held);
}

function finding(f, isBelow) {
  const j = f.json, name = { critical: "Critical", warning: "Warning", info: "Info" }[j.severity];
  return el("article", { class: "finding" + (isBelow ? " consequence" : ""), id: "f-" + j.id, tabindex: "-1" },
    el("div", { class: "row" },
      el("div", {}, el("span", { class: "pill " + j.severity }, `${name} \u00b7 ${f.shown}`),
        el("span", { class: "when" }, span(f))), track(f)),
    el("p", { class: "sentence" }, f.sentence),
    !isBelow && el("p", { class: "do" }, el("b", {}, "do "), f.do),
    el("details", {}, el("summary", {}, "Where, why, evidence"), blockOf(f.block),
      f.evidence && el("pre", {}, f.evidence.replace(/^ {4}/gm, "")),
      el("details", {}, el("summary", {}, "JSON"), el("pre", {}, JSON.stringify(j, null, 1)))));
}

// Causes in the order of time, each followed by what it caused.
function ordered() {
  const all = [...data.findings].sort((a, b) => a.since_s - b.since_s || a.open_s - b.open_s);
  const ids = new Set(all.map((f) => f.json.id)), out = [];
  const below = (id, depth) => {
    for (const f of all) if (!f.root && f.json.caused_by === id && depth < 8) {
      out.push([f, true]);
      below(f.json.id, depth + 1);
    }
  };
  for (const f of all) if (f.root || !ids.has(f.json.caused_by)) {
    out.push([f, false]);
    below(f.json.id, 0);
  }
  return out;
}

const FINDINGS_AT_ONCE = 100;

function findings() {
  const list = ordered();
  const hint = list.length ? "By time; consequences stand below their cause. Start with what has none."
    : "None: no rank was seen to block or slow the job.";
  const axis = el("div", { class: "axis", "aria-hidden": "true" }, ticks().map(([t, text]) => {
    const s = el("span", {}, text);
    s.style.left = percent(share(t));
    return s;
  }));
  const box = el("div", {}, list.slice(0, FINDINGS_AT_ONCE).map(([f, isBelow]) => finding(f, isBelow)));
  const more = list.length > FINDINGS_AT_ONCE && el("button", { type: "button", on: { click: (e) => {
    box.append(...list.slice(FINDINGS_AT_ONCE).map(([f, isBelow]) => finding(f, isBelow)));
    e.target.remove();
  } } }, `Show ${list.length - FINDINGS_AT_ONCE} more`);
  const s = section("findings", "Findings", hint, list.length > 0 && axis, box, more);
  s.classList.add("flows");
  return s;
}
