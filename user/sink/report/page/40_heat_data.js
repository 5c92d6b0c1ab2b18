// The cells of a heat map: unpacked, on scales of seconds, and joined to coarser levels as a view needs them.

const NEVER = 255, STEP_MIDDLE = 128;

async function unpack(text) {
  const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// In the page column by column; here row by row, as pixels are.
function transposed(from, rows, cols) {
  const to = new Uint8Array(rows * cols);
  for (let r0 = 0; r0 < rows; r0 += 64) for (let c = 0; c < cols; c++) {
    const end = Math.min(rows, r0 + 64);
    for (let r = r0; r < end; r++) to[r * cols + c] = from[c * rows + r];
  }
  return to;
}

// A level joins 2^ly rows and 2^lx columns to one cell, which is the worst of them.
class Levels {
  constructor(cells, rows, cols) {
    this.known = new Map([["0,0", { cells, rows, cols }]]);
  }

  get(ly, lx) {
    const key = ly + "," + lx;
    if (!this.known.has(key))
      this.known.set(key, lx ? this.joinColumns(this.get(ly, lx - 1)) : this.joinRows(this.get(ly - 1, 0)));
    return this.known.get(key);
  }

  // All that a view of so many pixels may ask for, so that no frame of a zoom waits for it.
  prepare(width, height) {
    const { rows, cols } = this.get(0, 0);
    for (let ly = 0; !ly || rows >> ly >= height; ly++)
      for (let lx = 0; !lx || cols >> lx >= width; lx++) this.get(ly, lx);
  }

  joinRows({ cells, rows, cols }) {
    const n = rows + 1 >> 1, to = new Uint8Array(n * cols);
    for (let r = 0; r < n; r++) {
      const a = 2 * r * cols, b = 2 * r + 1 < rows ? a + cols : a;
      for (let c = 0; c < cols; c++) to[r * cols + c] = Math.max(cells[a + c], cells[b + c]);
    }
    return { cells: to, rows: n, cols };
  }

  joinColumns({ cells, rows, cols }) {
    const n = cols + 1 >> 1, to = new Uint8Array(rows * n);
    for (let r = 0; r < rows; r++) for (let c = 0; c < n; c++) {
      const at = r * cols + 2 * c;
      to[r * n + c] = 2 * c + 1 < cols ? Math.max(cells[at], cells[at + 1]) : cells[at];
    }
    return { cells: to, rows, cols: n };
  }
}

const lateOf = (m, v) => m.late_floor_s * 2 ** ((v - 1) / m.late_levels);
const stepOf = (m, v) => m.median_s * 2 ** ((v - STEP_MIDDLE) / m.step_levels);

// Colours from [share, r, g, b] to [share, r, g, b].
function mix(stops, t) {
  let i = 1;
  while (i < stops.length - 1 && stops[i][0] < t) i++;
  const [a, b] = [stops[i - 1], stops[i]], f = Math.min(1, Math.max(0, (t - a[0]) / (b[0] - a[0])));
  return [1, 2, 3].map((k) => Math.round(a[k] + f * (b[k] - a[k])));
}

const LATE = { light: [[0, 243, 246, 250], [0.35, 203, 220, 240], [0.6, 250, 205, 120], [0.8, 232, 115, 52],
  [1, 158, 16, 28]], dark: [[0, 28, 35, 44], [0.35, 44, 74, 110], [0.6, 150, 110, 40], [0.8, 232, 130, 52],
  [1, 255, 228, 150]] };
const STEP = { light: [[0, 33, 102, 172], [0.35, 170, 205, 232], [0.5, 244, 246, 248], [0.65, 250, 190, 120],
  [1, 158, 16, 28]], dark: [[0, 110, 180, 255], [0.35, 40, 80, 120], [0.5, 30, 36, 44], [0.65, 140, 90, 30],
  [1, 255, 214, 130]] };

// Lateness is coloured up to a whole median step; a step from half to twice the median.
function colourOf(m, metric, dark, v) {
  const of = dark ? "dark" : "light";
  if (!v) return dark ? [32, 38, 45] : [233, 236, 239];
  if (metric === "late") {
    if (v === NEVER) return dark ? [255, 80, 160] : [106, 0, 72];
    const top = m.median_s > 0 ? m.median_s : 10, t = Math.log(lateOf(m, v) / m.late_floor_s) /
      Math.log(top / m.late_floor_s);
    return mix(LATE[of], t);
  }
  return mix(STEP[of], 0.5 + (v - STEP_MIDDLE) / m.step_levels / 2);
}

function paletteOf(m, metric, dark) {
  const out = new Uint32Array(256);
  for (let v = 0; v < 256; v++) {
    const [r, g, b] = colourOf(m, metric, dark, v);
    out[v] = (255 << 24 | b << 16 | g << 8 | r) >>> 0;
  }
  return out;
}
