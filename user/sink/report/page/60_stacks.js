// Stacks of the main threads, merged: where the tree parts, ranks do different things.

const FRAMES_SHOWN = 5;

function frames(list) {
  const line = (t, i) => el("li", { class: "mono" + (i === list.length - 1 ? " last" : "") }, t);
  if (list.length <= FRAMES_SHOWN + 1) return el("ol", {}, list.map(line));
  const hidden = list.length - FRAMES_SHOWN;
  const show = el("button", { type: "button" }, `\u2026 ${hidden} outer frames`);
  const ol = el("ol", {}, el("li", {}, show), list.slice(hidden).map((t, i) => line(t, i + hidden)));
  show.addEventListener("click", () => show.parentNode.replaceWith(...list.slice(0, hidden).map(line)));
  return ol;
}

function branch(node, all, siblings) {
  const bar = el("span", { class: "share" });
  bar.style.width = 120 * node.n / all + "px";
  const few = siblings > 1 && node.n * 4 <= all;
  return el("li", {}, el("div", { class: "who" + (few ? " few" : "") }, bar, clean(node.of),
    el("span", {}, ` \u2013 ${node.n} of ${all}${node.state ? ", " + node.state : ""}`)),
  frames(node.frames),
  node.children && el("ul", {}, node.children.map((c) => branch(c, all, node.children.length))),
  node.left && el("p", { class: "hint" }, `${node.left} more different ways`));
}

function stacks() {
  const t = data.stacks;
  if (!t) return null;
  const s = section("stacks", "Stacks of the main threads", "Merged, outermost frame first, as of " +
    moment(data.stacks_s) + ". Where the tree parts, ranks do different things: the smallest branch comes first.",
  el("ul", { class: "tree" }, branch(t, t.n, 1)),
  t.unread > 0 && el("p", { class: "hint" }, `${t.unread} processes could not be read`));
  s.classList.add("flows");
  return s;
}
