// The top: passed or not, who, what to do; then the faults, and what each stage came to.

function head() {
  const day = (data.lines[0] || {}).time || "";
  document.title = `${STATUS[data.status]}: ${host()} \u2013 ranktrace stress`;
  document.getElementById("top").append(el("span", { class: "name" }, "ranktrace stress"),
    el("span", { class: "of" }, `host ${host()}, ${day.slice(0, 10)} ${day.slice(11, 19)} UTC, ` +
      (data.quick ? "--quick" : "--full")), themeSwitch());
}

function firstWords() {
  const faults = faultsOf(), worst = faults.find((f) => f.severity === "critical") || faults[0];
  if (worst) {
    const more = new Set(faults.map((f) => subjectText(f.subject, f.to))).size - 1;
    return [`${subjectText(worst.subject, worst.to)}: ${worst.kind.replace("_", " ")}` +
      (more ? `; ${more} more devices or links` : ""),
    worst.summary, worst.remedy];
  }
  const open = of("stage").filter((s) => s.status === "refused" || s.status === "cut");
  const why = open.map((s) => `${s.stage}: ${s.text}`).join("; ");
  if (data.status) return ["Not all could be tested: no verdict", why, ""];
  return ["No device failed", `${of("stage").filter((s) => s.status === "passed").length} tests passed.`, ""];
}

function verdict() {
  const level = faultsOf().some((f) => f.severity === "critical") ? "critical" : data.status === 0 ? "ok" : "warning";
  const [what, why, act] = firstWords(), partial = ended().partial;
  const short = partial && partial.startsWith("--quick"); // on purpose, and all of it was there
  const gpus = new Set(of("verdict").filter((v) => v.subject.uuid).map((v) => v.subject.uuid));
  const figures = [["faults", faultsOf().length], ["GPUs", gpus.size], ["took", seconds(ended().elapsed_s || 0)]];
  return el("section", { class: "card verdict " + level, "aria-label": "Verdict" },
    el("span", { class: "pill " + level }, STATUS[data.status]), partial && " ",
    partial && el("span", { class: "pill over" }, short ? "short check" : "partial"),
    el("h1", {}, what), why && el("p", {}, why), act && el("p", { class: "do" }, act),
    partial && el("p", { class: "hint" }, (short ? "Short check: " : "Partial: ") + partial),
    el("dl", { class: "figures" }, figures.map(([name, value]) =>
      el("div", { class: name === "faults" && value ? "bad" : "" }, el("dt", {}, name),
        el("dd", {}, String(value))))));
}

// The first of each kind a device has, with how many there are.
function grouped() {
  const by = new Map();
  for (const f of faultsOf()) {
    const key = subjectText(f.subject, f.to) + "/" + f.kind;
    by.set(key, { first: (by.get(key) || { first: f }).first, n: (by.get(key) || { n: 0 }).n + 1 });
  }
  return [...by.values()];
}

function fault({ first: f, n }) {
  const row = f.rule && !f.summary.includes(f.rule) &&
    el("span", {}, `${number(f.value)} ${f.unit}, ${bounded(f)}: ${f.rule}`);
  return el("div", { class: "finding" },
    el("div", {}, el("span", { class: "pill " + f.severity }, f.severity), " ", el("b", {}, subjectText(f.subject, f.to)),
      ` ${f.kind}`, el("span", { class: "when" }, `stress ${f.test}, ${f.time.slice(11, 19)} UTC` +
        (n > 1 ? `, and ${n - 1} more of this kind` : ""))),
    el("p", { class: "sentence" }, f.summary), row && el("p", { class: "do" }, el("b", {}, "Held to: "), row),
    el("p", { class: "do" }, el("b", {}, "Do: "), f.remedy));
}

function faults() {
  const all = grouped();
  return section("faults", "Faults", "What is wrong with which device, and which row it was held to.",
    all.length ? all.slice(0, 100).map(fault) : el("p", { class: "hint" }, "None."),
    all.length > 100 && el("p", { class: "hint" }, `${all.length - 100} more are in the JSON lines.`));
}

function stages() {
  const pills = { passed: "ok", failed: "critical", refused: "warning", cut: "warning", left_out: "over" };
  return section("stages", "Tests", "In rising scope; each in a process of its own.", table(
    [{ name: "test" }, { name: "came to" }, { name: "took", num: true },
      { name: "why, or what is missing", long: true }],
    of("stage").map((s) => ({ cells: [s.stage,
      el("span", { class: "pill " + pills[s.status] }, s.status.replace("_", " ")),
      s.elapsed_s ? seconds(s.elapsed_s) : "", s.text || ""] }))));
}
