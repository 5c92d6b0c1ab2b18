// A view of a heat map: which part of it the canvas shows, and its keys, wheel and drags. Each frame looks up one cell
// for each pixel, at the level where cells are no smaller than pixels, so that its cost is that of the canvas.

const CELL_MAX = 44, ZOOM_STEP = 1.3, GUTTER = 52, FOOT = 20, HEAD = 10;

class HeatView {
  constructor(map, canvas, readout) {
    Object.assign(this, { map, canvas, readout, metric: "late", x: 0, y: 0, w: map.n_cols, h: map.n_rows });
    this.cursor = null;
    this.levels = {};
    this.ctx = canvas.getContext("2d", { alpha: false });
    this.marks = this.findMarks();
    new ResizeObserver(() => this.resize()).observe(canvas);
    document.addEventListener("theme", () => this.repaint());
    this.listen();
  }

  async load() {
    const m = this.map;
    for (const metric of ["late", "step"]) {
      const cells = transposed(await unpack(m[metric]), m.n_rows, m.n_cols);
      this.levels[metric] = new Levels(cells, m.n_rows, m.n_cols);
      if (this.pw) this.levels[metric].prepare(this.pw, this.ph);
    }
    this.repaint();
  }

  // --- geometry: what one sees, in cells; where it is drawn, in pixels of the canvas ---

  resize() {
    const css = this.canvas.clientWidth, ratio = Math.min(2, devicePixelRatio || 1);
    const height = Math.round(Math.min(460, Math.max(96, this.map.n_rows * 26)) + FOOT + HEAD);
    this.canvas.style.height = height + "px";
    this.canvas.width = Math.round(css * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.ratio = ratio;
    this.pw = Math.max(1, this.canvas.width - Math.round(GUTTER * ratio));
    this.ph = Math.max(1, this.canvas.height - Math.round((FOOT + HEAD) * ratio));
    this.left = Math.round(GUTTER * ratio);
    this.head = Math.round(HEAD * ratio);
    this.draw();
  }

  clamp() {
    const m = this.map, most = CELL_MAX * this.ratio;
    this.w = Math.min(m.n_cols, Math.max(this.w, Math.min(m.n_cols, this.pw / most)));
    this.h = Math.min(m.n_rows, Math.max(this.h, Math.min(m.n_rows, this.ph / most)));
    this.x = Math.min(m.n_cols - this.w, Math.max(0, this.x));
    this.y = Math.min(m.n_rows - this.h, Math.max(0, this.y));
  }

  zoom(by, px = this.pw / 2, py = this.ph / 2) {
    const cx = this.x + px / this.pw * this.w, cy = this.y + py / this.ph * this.h;
    this.w /= by;
    this.h /= by;
    this.clamp();
    this.x = cx - px / this.pw * this.w;
    this.y = cy - py / this.ph * this.h;
    this.repaint();
  }

  pan(dx, dy) {
    this.x += dx;
    this.y += dy;
    this.repaint();
  }

  reset() {
    Object.assign(this, { x: 0, y: 0, w: this.map.n_cols, h: this.map.n_rows });
    this.repaint();
  }

  repaint() {
    if (this.asked) return;
    this.asked = requestAnimationFrame(() => { this.asked = 0; this.draw(); });
  }

  // --- drawing ---

  draw() {
    if (!this.pw) return;
    this.clamp();
    const dark = isDark(), key = this.metric + dark;
    if (this.paletteKey !== key) this.palette = paletteOf(this.map, this.metric, dark);
    this.paletteKey = key;
    this.ctx.fillStyle = dark ? "#181c22" : "#fff";
    this.ctx.fillRect(0, 0, this.canvas.width, this.canvas.height);
    if (this.levels[this.metric]) this.drawCells();
    this.drawAxes(dark ? "#9aa5b3" : "#5a6472");
    this.drawMarks(dark);
    this.drawCursor(dark);
  }

  drawCells() {
    const lx = Math.max(0, Math.floor(Math.log2(this.w / this.pw))), ly = Math.max(0, Math.floor(Math.log2(this.h /
      this.ph)));
    const { cells, cols, rows } = this.levels[this.metric].get(ly, lx), { pw, ph, palette } = this;
    if (!this.image || this.image.width !== pw || this.image.height !== ph) {
      this.image = new ImageData(pw, ph);
      this.pixels = new Uint32Array(this.image.data.buffer);
      this.columns = new Int32Array(pw);
    }
    const sx = this.w / pw / 2 ** lx, sy = this.h / ph / 2 ** ly, x0 = this.x / 2 ** lx, y0 = this.y / 2 ** ly;
    const { columns, pixels } = this;
    for (let i = 0; i < pw; i++) columns[i] = Math.min(cols - 1, Math.floor(x0 + (i + 0.5) * sx));
    let lastRow = -1, lastAt = 0;
    for (let k = 0; k < ph; k++) {
      const row = Math.min(rows - 1, Math.floor(y0 + (k + 0.5) * sy)), at = k * pw;
      if (row === lastRow) {
        pixels.copyWithin(at, lastAt, lastAt + pw);
        continue;
      }
      const base = row * cols;
      for (let i = 0; i < pw; i++) pixels[at + i] = palette[cells[base + columns[i]]];
      lastRow = row;
      lastAt = at;
    }
    this.ctx.putImageData(this.image, this.left, this.head);
    this.grid();
  }

  // Lines between cells, where these are large enough to be told apart.
  grid() {
    const cw = this.pw / this.w, ch = this.ph / this.h, c = this.ctx;
    c.fillStyle = isDark() ? "#181c22" : "#fff";
    if (cw >= 7) for (let i = Math.ceil(this.x); i < this.x + this.w; i++)
      c.fillRect(this.left + Math.round((i - this.x) * cw) - 1, this.head, 1, this.ph);
    if (ch >= 7) for (let i = Math.ceil(this.y); i < this.y + this.h; i++)
      c.fillRect(this.left, this.head + Math.round((i - this.y) * ch) - 1, this.pw, 1);
  }

  drawAxes(colour) {
    const c = this.ctx, m = this.map, cw = this.pw / this.w, ch = this.ph / this.h, r = this.ratio;
    c.fillStyle = colour;
    c.font = `${12 * r}px system-ui, sans-serif`;
    c.textBaseline = "middle";
    c.textAlign = "right";
    const evens = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000];
    const every = (cell, room) => evens.find((n) => n * cell >= room) || 10000;
    for (let n = every(ch, 18 * r), i = Math.ceil(this.y / n) * n; i < this.y + this.h; i += n)
      if ((i + 0.5 - this.y) * ch > 0) c.fillText(m.rows[i][0], this.left - 8 * r, this.head + (i + 0.5 - this.y) * ch);
    c.textAlign = "center";
    const n = every(cw, 70 * r), y = this.head + this.ph + 11 * r;
    for (let i = Math.ceil(this.x / n) * n; i < this.x + this.w; i += n) {
      const text = m.by_time ? moment(m.begin_s[i]) : "step " + i * m.joined, at = this.left + (i + 0.5 - this.x) * cw;
      const half = c.measureText(text).width / 2;
      if (at - half > this.left - 40 * r && at + half < this.canvas.width) c.fillText(text, at, y);
    }
  }

  // Findings stand above the columns in which they began.
  findMarks() {
    const column = (t) => {
      let i = this.map.begin_s.findIndex((b) => b > t);
      i = i < 0 ? this.map.n_cols : i;
      return Math.max(0, i - 1);
    };
    return data.findings.filter((f) => f.root && f.json.severity !== "info").slice(0, 200)
      .map((f) => [column(f.since_s), f.json.severity]);
  }

  drawMarks(dark) {
    const of = { critical: dark ? "#ff8a80" : "#b3261e", warning: "#d98a00" }, c = this.ctx, s = 5 * this.ratio;
    for (const [col, severity] of this.marks) {
      const at = this.left + (col + 0.5 - this.x) * this.pw / this.w;
      if (at < this.left || at > this.canvas.width) continue;
      c.fillStyle = of[severity];
      c.beginPath();
      c.moveTo(at - s, 0);
      c.lineTo(at + s, 0);
      c.lineTo(at, this.head - 1);
      c.fill();
    }
  }

  drawCursor(dark) {
    if (!this.cursor) return;
    const [col, row] = this.cursor, cw = this.pw / this.w, ch = this.ph / this.h;
    this.ctx.strokeStyle = dark ? "#fff" : "#000";
    this.ctx.lineWidth = Math.max(1, this.ratio);
    this.ctx.strokeRect(this.left + (col - this.x) * cw, this.head + (row - this.y) * ch, Math.max(3, cw), Math.max(3,
      ch));
  }

  // --- what is under the cursor, in words ---

  say() {
    const [col, row] = this.cursor, m = this.map, [rank, pid, gpu, host] = m.rows[row];
    const at = (metric) => (this.levels[metric] ? this.levels[metric].get(0, 0).cells[row * m.n_cols + col] : 0);
    const late = at("late"), step = at("step"), words = [];
    const to = m.joined > 1 ? "\u2013" + ((col + 1) * m.joined - 1) : "";
    const begin = moment(m.begin_s[col]);
    const where = m.by_time ? "from " + begin : `step ${col * m.joined}${to}, at ${begin}`;
    if (late === NEVER) words.push("never entered what its peers waited in");
    else if (late) words.push(late > 1 ? `${seconds(lateOf(m, late))} behind the first` : "with the first");
    if (step) words.push(`step took about ${seconds(stepOf(m, step))} (median ${seconds(m.median_s)})`);
    if (!words.length) words.push("nothing is known");
    this.readout.textContent = clean(`Rank ${rank}, ${where}: ${words.join("; ")}. ` +
      `Host ${m.hosts[host]}, pid ${pid}${gpu >= 0 ? ", GPU " + gpu : ""}.`);
  }

  point(col, row) {
    this.cursor = [Math.min(this.map.n_cols - 1, Math.max(0, col)), Math.min(this.map.n_rows - 1, Math.max(0, row))];
    this.say();
    this.repaint();
  }

  // Moves the cursor by cells, or by as many as a pixel holds; the view follows.
  step(dx, dy) {
    const [col, row] = this.cursor || [Math.floor(this.x + this.w / 2), Math.floor(this.y + this.h / 2)];
    const by = (n, cells, px) => n * Math.max(1, Math.round(cells / px * 6));
    this.point(col + by(dx, this.w, this.pw), row + by(dy, this.h, this.ph));
    const [c, r] = this.cursor;
    if (c < this.x) this.x = c;
    if (c >= this.x + this.w) this.x = c + 1 - this.w;
    if (r < this.y) this.y = r;
    if (r >= this.y + this.h) this.y = r + 1 - this.h;
  }

  key(e) {
    const dir = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[e.key];
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    if (dir && e.shiftKey) this.pan(dir[0] * this.w / 5, dir[1] * this.h / 5);
    else if (dir) this.step(...dir);
    else if (e.key === "+" || e.key === "=") this.zoom(ZOOM_STEP);
    else if (e.key === "-") this.zoom(1 / ZOOM_STEP);
    else if (e.key === "0" || e.key === "Home") this.reset();
    else return;
    e.preventDefault();
  }

  // --- pointer ---

  inPlot(e) {
    const box = this.canvas.getBoundingClientRect();
    return [(e.clientX - box.left) * this.ratio - this.left, (e.clientY - box.top) * this.ratio - this.head];
  }

  moved(e) {
    const before = this.held.get(e.pointerId), now = this.inPlot(e);
    if (!before) {
      if (now[0] >= 0 && now[1] >= 0 && now[0] < this.pw && now[1] < this.ph)
        this.point(Math.floor(this.x + now[0] / this.pw * this.w), Math.floor(this.y + now[1] / this.ph * this.h));
      return;
    }
    this.held.set(e.pointerId, now);
    if (this.held.size === 1)
      this.pan((before[0] - now[0]) / this.pw * this.w, (before[1] - now[1]) / this.ph * this.h);
    else if (this.held.size === 2) this.pinch(e.pointerId, before, now);
  }

  pinch(id, before, now) {
    const other = [...this.held].find(([k]) => k !== id)[1], far = (a) => Math.hypot(a[0] - other[0], a[1] - other[1]);
    if (far(before) > 4) this.zoom(far(now) / far(before), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
  }

  listen() {
    const c = this.canvas;
    this.held = new Map();
    c.addEventListener("keydown", (e) => this.key(e));
    c.addEventListener("pointerdown", (e) => {
      this.held.set(e.pointerId, this.inPlot(e));
      c.setPointerCapture(e.pointerId);
    });
    c.addEventListener("pointermove", (e) => this.moved(e));
    for (const end of ["pointerup", "pointercancel"])
      c.addEventListener(end, (e) => this.held.delete(e.pointerId));
    c.addEventListener("dblclick", (e) => this.zoom(2.5, ...this.inPlot(e)));
    // The wheel scrolls the page until the map was clicked or is asked for with ctrl.
    c.addEventListener("wheel", (e) => {
      if (!e.ctrlKey && document.activeElement !== c) return;
      e.preventDefault();
      this.zoom(Math.exp(-e.deltaY / 300), ...this.inPlot(e));
    }, { passive: false });
  }
}
