"use strict";
// The page of a report. Everything of the data goes in as text (textContent), never as markup: names come from
// processes that no one vouches for. Files of this folder are joined in the order of their names.

const data = JSON.parse(document.getElementById("data").textContent);

// Control characters and those that change the direction of text would let a name pretend to be something else.
const UNSAFE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const clean = (s) => String(s).replace(UNSAFE, "\ufffd");

function el(tag, attrs, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attrs || {})) {
    if (k === "on") for (const [name, f] of Object.entries(v)) e.addEventListener(name, f);
    else if (v !== undefined && v !== null && v !== false) e.setAttribute(k, v === true ? "" : v);
  }
  for (const c of children.flat()) {
    if (c === undefined || c === null || c === "" || c === false) continue;
    e.append(c instanceof Node ? c : document.createTextNode(clean(c)));
  }
  return e;
}

function svg(tag, attrs, ...children) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [k, v] of Object.entries(attrs || {})) e.setAttribute(k, v);
  for (const c of children) e.append(c instanceof Node ? c : document.createTextNode(clean(c)));
  return e;
}

// A section with its heading; `id` is also what the navigation leads to.
function section(id, title, hint, ...children) {
  return el("section", { id, class: "card", "aria-labelledby": id + "-h" },
    el("h2", { id: id + "-h" }, title), hint && el("p", { class: "hint" }, hint), ...children);
}

const digits = (v) => (v >= 100 ? v.toFixed(0) : v >= 10 ? v.toFixed(1) : v.toFixed(2));

function seconds(s) {
  const a = Math.abs(s);
  if (a >= 5400) return digits(s / 3600) + " h";
  if (a >= 90) return digits(s / 60) + " min";
  if (a >= 1) return digits(s) + " s";
  return a >= 1e-3 ? digits(s * 1e3) + " ms" : digits(s * 1e6) + " \u00b5s";
}

// A time of the recording: from its begin on.
function moment(s) {
  const t = Math.max(0, s), h = Math.floor(t / 3600), m = Math.floor(t / 60) % 60, rest = t % 60;
  const two = (n) => String(n).padStart(2, "0");
  const sec = data.seconds < 600 ? rest.toFixed(1).padStart(4, "0") : two(Math.floor(rest));
  return h ? `${h}:${two(m)}:${two(Math.floor(rest))}` : `${m}:${sec}`;
}

function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) { n /= 1024; i++; }
  return (i ? digits(n) : n) + " " + units[i];
}

const thousands = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, "\u202f");

// A span of time, from 0 to 1 of the recording.
const share = (s) => Math.min(1, Math.max(0, data.seconds > 0 ? s / data.seconds : 0));
const percent = (v) => (100 * v).toFixed(3) + "%";
