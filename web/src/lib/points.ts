/**
 * Many points, drawn with WebGL, or with 2-D canvas where there is none. No code is made at run
 * time, so that it runs under a Content-Security-Policy without unsafe-eval.
 */

export interface View {
  /** Data coordinates of the middle, and data units that half the smaller side shows. */
  x: number;
  y: number;
  half: number;
}

const VERTEX = `
attribute vec2 place;
attribute vec4 color;
attribute float chosen;
uniform vec2 middle;
uniform vec2 factor;
uniform float size;
uniform float dim;
varying vec4 shade;
void main() {
  gl_Position = vec4((place - middle) * factor, 0.0, 1.0);
  gl_PointSize = size * (1.0 + 0.45 * chosen);
  shade = vec4(color.rgb, color.a * mix(dim, 1.0, chosen));
}`;
const FRAGMENT = `
precision mediump float;
varying vec4 shade;
void main() {
  float d = length(gl_PointCoord - 0.5);
  float a = 1.0 - smoothstep(0.40, 0.5, d);
  gl_FragColor = vec4(shade.rgb * shade.a * a, shade.a * a);
}`;

export class Points {
  readonly kind: "webgl" | "canvas";
  private readonly gl: WebGLRenderingContext | null;
  private readonly flat: CanvasRenderingContext2D | null = null;
  private x: Float32Array = new Float32Array();
  private y: Float32Array = new Float32Array();
  private color: Uint8Array = new Uint8Array();
  private chosen: Uint8Array = new Uint8Array();
  private any = false;
  private buffers: Record<"place" | "color" | "chosen", WebGLBuffer> | null = null;
  private program: WebGLProgram | null = null;
  private cells: Map<number, number[]> | null = null;
  private cell = 1;
  private pending = 0;
  view: View = { x: 0, y: 0, half: 1 };

  constructor(readonly canvas: HTMLCanvasElement) {
    // the buffer is kept so that a picture can be taken of it
    this.gl = canvas.getContext("webgl", { antialias: false, preserveDrawingBuffer: true });
    this.kind = this.gl ? "webgl" : "canvas";
    if (this.gl) this.prepare(this.gl);
    else this.flat = canvas.getContext("2d");
  }

  private prepare(gl: WebGLRenderingContext): void {
    const shader = (type: number, source: string): WebGLShader => {
      const made = gl.createShader(type)!;
      gl.shaderSource(made, source);
      gl.compileShader(made);
      if (!gl.getShaderParameter(made, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(made) ?? "shader");
      return made;
    };
    const program = gl.createProgram()!;
    gl.attachShader(program, shader(gl.VERTEX_SHADER, VERTEX));
    gl.attachShader(program, shader(gl.FRAGMENT_SHADER, FRAGMENT));
    gl.linkProgram(program);
    gl.useProgram(program);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    const attribute = (name: string, size: number, type: number, normal: boolean): WebGLBuffer => {
      const buffer = gl.createBuffer()!;
      const at = gl.getAttribLocation(program, name);
      gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
      gl.enableVertexAttribArray(at);
      gl.vertexAttribPointer(at, size, type, normal, 0, 0);
      return buffer;
    };
    this.program = program;
    this.buffers = {
      place: attribute("place", 2, gl.FLOAT, false),
      color: attribute("color", 4, gl.UNSIGNED_BYTE, true),
      chosen: attribute("chosen", 1, gl.UNSIGNED_BYTE, false),
    };
  }

  private fill(name: "place" | "color" | "chosen", values: Float32Array | Uint8Array): void {
    if (!this.gl || !this.buffers) return;
    this.gl.bindBuffer(this.gl.ARRAY_BUFFER, this.buffers[name]);
    this.gl.bufferData(this.gl.ARRAY_BUFFER, values, this.gl.DYNAMIC_DRAW);
  }

  /** Places of all points; those without a place (NaN) are not drawn. */
  places(x: Float32Array, y: Float32Array): void {
    this.x = x;
    this.y = y;
    this.cells = null;
    const both = new Float32Array(2 * x.length);
    for (let i = 0; i < x.length; i++) {
      both[2 * i] = x[i] === x[i] ? x[i] : 1e9;
      both[2 * i + 1] = x[i] === x[i] ? y[i] : 1e9;
    }
    this.fill("place", both);
    this.choose(new Uint8Array(x.length));
  }

  /** RGBA of every point. */
  paint(color: Uint8Array): void {
    this.color = color;
    this.fill("color", color);
    this.draw();
  }

  /** 1 for every point of a selection; where there is one, the others fade. */
  choose(chosen: Uint8Array): void {
    this.chosen = chosen;
    this.any = chosen.includes(1);
    this.fill("chosen", chosen);
    this.draw();
  }

  /** Draws with the next frame, once for all changes until then. */
  draw(): void {
    this.pending ||= requestAnimationFrame(() => {
      this.pending = 0;
      this.now();
    });
  }

  now(): void {
    const { canvas, view } = this;
    const n = this.x.length;
    if (!canvas.width || !canvas.height || this.color.length !== 4 * n) return;
    const smaller = Math.min(canvas.width, canvas.height);
    const size = this.size();
    if (this.gl && this.program) {
      const gl = this.gl;
      gl.viewport(0, 0, canvas.width, canvas.height);
      gl.clearColor(0, 0, 0, 0);
      gl.clear(gl.COLOR_BUFFER_BIT);
      const at = (name: string): WebGLUniformLocation | null => gl.getUniformLocation(this.program!, name);
      gl.uniform2f(at("middle"), view.x, view.y);
      gl.uniform2f(at("factor"), smaller / canvas.width / view.half, smaller / canvas.height / view.half);
      gl.uniform1f(at("size"), size);
      gl.uniform1f(at("dim"), this.any ? 0.18 : 1);
      gl.drawArrays(gl.POINTS, 0, n);
      return;
    }
    const flat = this.flat!;
    flat.clearRect(0, 0, canvas.width, canvas.height);
    const scale = smaller / 2 / view.half;
    for (let i = 0; i < n; i++) {
      const px = (this.x[i] - view.x) * scale + canvas.width / 2;
      const py = canvas.height / 2 - (this.y[i] - view.y) * scale;
      if (!(px > -9 && py > -9 && px < canvas.width + 9 && py < canvas.height + 9)) continue;
      const alpha = (this.color[4 * i + 3] / 255) * (this.any && !this.chosen[i] ? 0.18 : 1);
      flat.fillStyle = `rgba(${this.color[4 * i]},${this.color[4 * i + 1]},${this.color[4 * i + 2]},${alpha})`;
      flat.fillRect(px - size / 2, py - size / 2, size, size);
    }
  }

  /** Diameter in canvas pixels: smaller where there are many, larger when one looks closely. */
  private size(): number {
    const crowd = Math.max(0, Math.log10(Math.max(1, this.x.length)) - 2.5);
    const zoom = Math.min(2.2, Math.max(1, (1 / this.view.half) ** 0.4));
    return Math.max(2.5, 9 - 2.4 * crowd) * zoom * (devicePixelRatio || 1);
  }

  /** Of a place in CSS pixels, the data coordinates. */
  data(px: number, py: number): [number, number] {
    const { clientWidth: w, clientHeight: h } = this.canvas;
    const unit = (2 * this.view.half) / Math.min(w, h);
    return [this.view.x + (px - w / 2) * unit, this.view.y + (h / 2 - py) * unit];
  }

  /** Of data coordinates, the place in CSS pixels. */
  pixel(x: number, y: number): [number, number] {
    const { clientWidth: w, clientHeight: h } = this.canvas;
    const unit = Math.min(w, h) / (2 * this.view.half);
    return [w / 2 + (x - this.view.x) * unit, h / 2 - (y - this.view.y) * unit];
  }

  /** The point nearest to a place in CSS pixels, within `reach` of it; -1 where there is none. */
  nearest(px: number, py: number, reach = 8): number {
    this.cells ??= this.index();
    const [x, y] = this.data(px, py);
    const unit = (2 * this.view.half) / Math.min(this.canvas.clientWidth, this.canvas.clientHeight);
    const far = reach * unit;
    const [gx, gy, k] = [Math.floor(x / this.cell), Math.floor(y / this.cell), Math.ceil(far / this.cell)];
    let [best, at] = [far * far, -1];
    const look = (i: number): void => {
      const d = (this.x[i] - x) ** 2 + (this.y[i] - y) ** 2;
      if (d < best) [best, at] = [d, i];
    };
    if (k > 12) for (let i = 0; i < this.x.length; i++) look(i);
    else for (let i = gx - k; i <= gx + k; i++) for (let j = gy - k; j <= gy + k; j++) this.cells.get(i * 65536 + j)?.forEach(look);
    return at;
  }

  private index(): Map<number, number[]> {
    const cells = new Map<number, number[]>();
    const reach = Math.max(1e-9, ...[this.x, this.y].map((v) => v.reduce((m, a) => (a === a ? Math.max(m, Math.abs(a)) : m), 0)));
    this.cell = reach / 100;
    for (let i = 0; i < this.x.length; i++) {
      if (this.x[i] !== this.x[i]) continue;
      const key = Math.floor(this.x[i] / this.cell) * 65536 + Math.floor(this.y[i] / this.cell);
      const held = cells.get(key);
      if (held) held.push(i);
      else cells.set(key, [i]);
    }
    return cells;
  }

  /** 1 for every point within a polygon of data coordinates. */
  within(polygon: [number, number][]): Uint8Array {
    const n = this.x.length;
    const out = new Uint8Array(n);
    let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
    for (const [x, y] of polygon) [x0, x1, y0, y1] = [Math.min(x0, x), Math.max(x1, x), Math.min(y0, y), Math.max(y1, y)];
    for (let i = 0; i < n; i++) {
      const [x, y] = [this.x[i], this.y[i]];
      if (!(x >= x0 && x <= x1 && y >= y0 && y <= y1)) continue;
      let inside = false;
      for (let a = 0, b = polygon.length - 1; a < polygon.length; b = a++) {
        const [ax, ay] = polygon[a];
        const [bx, by] = polygon[b];
        if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) inside = !inside;
      }
      out[i] = inside ? 1 : 0;
    }
    return out;
  }

  destroy(): void {
    cancelAnimationFrame(this.pending);
    this.gl?.getExtension("WEBGL_lose_context")?.loseContext();
  }
}
