// The top: what happened, in three sentences, and the figures.

function headOf() {
  const day = data.from.slice(0, 10), from = data.from.slice(11, 19), to = data.to.slice(11, 19);
  const what = data.jobs.length ? "job " + data.jobs.join(", ") : "no job's name";
  document.title = (data.summary.kind ? data.summary.kind + ": " : "") + what + " \u2013 ranktrace report";
  document.getElementById("top").append(el("span", { class: "name" }, "ranktrace report"),
    el("span", { class: "of" }, `${what}, host ${data.host}, ${day} ${from} to ${to} UTC`), themeSwitch());
}

function verdict() {
  const s = data.summary, [what, why, act] = s.said;
  const words = { critical: "Critical", warning: "Warning", ok: "No fault found", unknown: "Nothing to judge" };
  const bad = (f) => (f.name === "critical" || f.name === "records lost") && f.value !== "0";
  return el("section", { class: "card verdict " + s.severity, "aria-label": "What happened" },
    el("span", { class: "pill " + s.severity }, words[s.severity] + (s.kind ? " \u00b7 " + s.kind : "")),
    s.over && " ", s.over && el("span", { class: "pill over" }, "over by the end of the recording"),
    el("h1", {}, what), el("p", {}, why), el("p", { class: "do" }, act),
    el("dl", { class: "figures" }, s.figures.map((f) =>
      el("div", { class: bad(f) ? "bad" : "" }, el("dt", {}, f.name),
        el("dd", {}, /^\d+$/.test(f.value) ? thousands(f.value) : f.value)))));
}

function nextSteps() {
  if (!data.next.length) return null;
  return section("next", "What to do next", "", el("ol", { class: "plain" }, data.next.map((n) =>
    el("li", {}, n.text, n.command && el("code", { class: "cmd" }, n.command)))));
}

function unseen() {
  const lines = data.unseen.length ? el("ul", { class: "plain" }, data.unseen.map((t) => el("li", {}, t)))
    : el("p", { class: "hint" }, "Nothing: no record was lost, and all ranks that the job has were seen.");
  return section("unseen", "What was lost or unseen", "What the verdict above does not rest on.", lines,
    data.notes.length > 0 && el("details", {}, el("summary", {},
      `${data.notes.length} changes of probes, and lines of the kernel's log`),
      el("ul", { class: "plain" }, data.notes.map((n) => el("li", {}, moment(n.t_s) + "  " + n.text)))));
}
