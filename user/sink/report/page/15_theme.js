// Light, dark, or as the system has it. Of all pages.

const THEMES = ["auto", "light", "dark"];

function themeSwitch() {
  const of = { auto: "Theme: automatic", light: "Theme: light", dark: "Theme: dark" };
  let now = 0;
  const b = el("button", { class: "switch", type: "button" }, of.auto);
  b.addEventListener("click", () => {
    now = (now + 1) % THEMES.length;
    if (now) document.documentElement.dataset.theme = THEMES[now];
    else delete document.documentElement.dataset.theme;
    b.textContent = of[THEMES[now]];
    document.dispatchEvent(new Event("theme"));
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change",
    () => document.dispatchEvent(new Event("theme")));
  return b;
}

const isDark = () => getComputedStyle(document.documentElement).colorScheme === "dark";
