// Puts the page together: what one asks first comes first.

function main() {
  head();
  const parts = [verdict(), faults(), stages(), matrices(), curves(), rates(), collectives(), scaling(), hostLinks(),
    ports(), devices(), inventory()].filter(Boolean);
  const links = parts.filter((p) => p.id).map((p) => el("a", { href: "#" + p.id }, p.querySelector("h2").textContent));
  document.querySelector("main").append(el("nav", { "aria-label": "Sections" }, links), ...parts);
  document.querySelector("footer").append(el("p", {}, "Made by ranktrace stress all. This page loads nothing from " +
    "anywhere: it can be sent as it is, and opened without a network."));
}

main();
