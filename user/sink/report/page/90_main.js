// Puts the page together: what one asks first comes first.

function main() {
  headOf();
  const parts = [verdict(), findings(), graphs(), heat(), stacks(), nextSteps(), comms(), ranks(), storage(), machines(),
    unseen()].filter(Boolean);
  const links = parts.filter((p) => p.id).map((p) => el("a", { href: "#" + p.id }, p.querySelector("h2").textContent));
  document.querySelector("main").append(el("nav", { "aria-label": "Sections" }, links), ...parts);
  document.querySelector("footer").append(el("p", {}, "Made by ranktrace report. This page loads nothing from " +
    "anywhere: it can be sent as it is, and opened without a network. Times count from the begin of the recording."));
  addEventListener("beforeprint", () => {
    for (const d of document.querySelectorAll(".finding > details")) d.open = true;
  });
}

main();
