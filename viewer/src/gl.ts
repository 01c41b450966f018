/**
 * Rectangles by WebGL2: each tile is a buffer of instances as the server sent it, and zooming and panning are uniforms. Where there is
 * no WebGL2, or only one that the processor emulates, the same calls write pixels.
 */

import { CHOSEN, COUNTER, FADED, GROUP, MOMENT, PAINTED, PREVIEW, RECT_BYTES, type Tile } from "./data";
import { CLASS_CHOSEN, CLASS_OWN, CLASS_REPORT, paletteBytes } from "./colors";

export interface Batch {
  tile: Tile;
  level: number;
  x: number; // of the tile's start, CSS pixels
  scale: number; // CSS pixels a tile pixel
  y: number;
  h: number;
  cls: number;
  clip?: [number, number]; // x from..to
  low: number; // of a counter's axis
  high: number;
  shift: number; // added to the colour: tells counters apart
  tint: number; // colour chosen for the whole row, -1: none
}

export interface Painter {
  resize(width: number, height: number, ratio: number): void;
  colors(dark: boolean, palettes: Uint32Array[]): void;
  begin(back: string): void;
  draw(b: Batch, top: number, bottom: number): void;
  end(): void;
  drop(t: Tile): void;
  readonly kind: string;
}

const VERTEX = `#version 300 es
precision highp float;
precision highp int;
layout(location = 0) in vec2 span;
layout(location = 1) in vec2 range;
layout(location = 2) in uint name;
layout(location = 3) in uvec4 look;
uniform vec2 size;      // of the canvas, CSS pixels
uniform vec4 place;     // x, scale, y, height
uniform vec2 axis;      // of a counter
uniform int cls, paint, shift, tint;
uniform float least;    // a device pixel
uniform sampler2D palette;
flat out vec4 color;
out vec2 at;
flat out vec2 extent;
void main() {
  vec2 corner = vec2(gl_VertexID & 1, gl_VertexID >> 1);
  float x0 = place.x + span.x * place.y, x1 = place.x + span.y * place.y;
  float y0 = place.z, y1 = place.z + place.w;
  uint flags = look.z;
  bool group = (flags & ${GROUP}u) != 0u;
  if ((flags & ${COUNTER}u) != 0u) {
    float low = (range.y - axis.x) / axis.y, high = (range.x - axis.x) / axis.y;
    y0 = place.z + place.w * (1.0 - clamp(high, 0.0, 1.0)) - 0.5;
  } else if (group || float(look.y) < 255.0) {
    float busy = max(float(look.y) / 255.0, 0.12);
    y0 = y1 - place.w * busy;
  }
  if (x1 - x0 > 3.0) x1 -= min(1.0, (x1 - x0) * 0.1);
  x1 = max(x1, x0 + least);
  vec2 p = vec2(mix(x0, x1, corner.x), mix(y0, y1, corner.y));
  at = (p - vec2(x0, y0));
  extent = vec2(x1 - x0, y1 - y0);
  int row = (flags & ${PAINTED}u) != 0u ? paint : (name >> 30) == 2u && (flags & ${COUNTER}u) == 0u ? ${CLASS_OWN} : cls;
  int column = (flags & ${COUNTER}u) != 0u ? shift : row == ${CLASS_OWN} ? int(name & 255u) : int(look.x);
  if ((flags & ${CHOSEN}u) != 0u || tint >= 0) {
    column = (flags & ${CHOSEN}u) != 0u ? int(look.w) : tint;
    row = ${CLASS_CHOSEN};
  }
  color = texelFetch(palette, ivec2(column, row), 0);
  /* Of many at once no single one's colour should speak. */
  if (group && row != ${CLASS_OWN} && row != ${CLASS_CHOSEN}) color = mix(color, texelFetch(palette, ivec2(row == cls ? 40 : column, row), 0), cls == 0 ? 0.0 : 0.8);
  if ((flags & ${PREVIEW}u) != 0u) color = vec4(texelFetch(palette, ivec2(40, cls), 0).rgb, 0.5);
  else if ((flags & ${COUNTER}u) != 0u) color.a = 0.85;
  if ((flags & ${FADED}u) != 0u) color = vec4(mix(color.rgb, vec3(0.5), 0.55), 0.25);
  if ((flags & ${MOMENT}u) != 0u && !group) color.rgb *= 0.9;
  gl_Position = vec4(p.x / size.x * 2.0 - 1.0, 1.0 - p.y / size.y * 2.0, 0.0, 1.0);
}`;

const FRAGMENT = `#version 300 es
precision mediump float;
flat in vec4 color;
in vec2 at;
flat in vec2 extent;
out vec4 result;
void main() {
  float shade = extent.x > 4.0 && (at.x < 1.0 || at.y > extent.y - 1.0) ? 0.82 : 1.0;
  result = vec4(color.rgb * shade * color.a, color.a);
}`;

function parseColor(s: string): [number, number, number] {
  const v = parseInt(s.slice(1), 16);
  return [((v >> 16) & 255) / 255, ((v >> 8) & 255) / 255, (v & 255) / 255];
}

interface Buffers {
  vao: WebGLVertexArrayObject;
  buffer: WebGLBuffer;
  from: number; // first rectangle that the attributes point to
}

export class GLPainter implements Painter {
  readonly kind = "webgl2";
  private program: WebGLProgram;
  private u: Record<string, WebGLUniformLocation | null> = {};
  private palette: WebGLTexture | null;
  private width = 1;
  private height = 1;
  private ratio = 1;

  /** Null where there is none, or unless `any` where the processor would emulate it. */
  static make(canvas: HTMLCanvasElement, any: boolean): GLPainter | null {
    const gl = canvas.getContext("webgl2", { alpha: false, antialias: false, failIfMajorPerformanceCaveat: !any, powerPreference: "high-performance" });
    try {
      return gl && (any || !GLPainter.emulated(gl)) ? new GLPainter(gl) : null;
    } catch {
      return null;
    }
  }

  private static emulated(gl: WebGL2RenderingContext): boolean {
    const info = gl.getExtension("WEBGL_debug_renderer_info");
    return /swiftshader|llvmpipe|softpipe|software|basic render/i.test(String(gl.getParameter(info ? info.UNMASKED_RENDERER_WEBGL : gl.RENDERER)));
  }

  private constructor(private gl: WebGL2RenderingContext) {
    const shader = (type: number, source: string): WebGLShader => {
      const s = gl.createShader(type)!;
      gl.shaderSource(s, source);
      gl.compileShader(s);
      if (!gl.getShaderParameter(s, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(s) ?? "shader");
      return s;
    };
    this.program = gl.createProgram()!;
    gl.attachShader(this.program, shader(gl.VERTEX_SHADER, VERTEX));
    gl.attachShader(this.program, shader(gl.FRAGMENT_SHADER, FRAGMENT));
    gl.linkProgram(this.program);
    if (!gl.getProgramParameter(this.program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(this.program) ?? "program");
    for (const n of ["size", "place", "axis", "cls", "paint", "shift", "tint", "least", "palette"]) this.u[n] = gl.getUniformLocation(this.program, n);
    this.palette = gl.createTexture();
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  }

  resize(width: number, height: number, ratio: number): void {
    const c = this.gl.canvas as HTMLCanvasElement;
    this.width = width;
    this.height = height;
    this.ratio = ratio;
    c.width = Math.max(1, Math.round(width * ratio));
    c.height = Math.max(1, Math.round(height * ratio));
    this.gl.viewport(0, 0, c.width, c.height);
  }

  colors(dark: boolean, palettes: Uint32Array[]): void {
    const gl = this.gl;
    gl.bindTexture(gl.TEXTURE_2D, this.palette);
    const bytes = paletteBytes(dark, palettes);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, 256, bytes.length / 1024, 0, gl.RGBA, gl.UNSIGNED_BYTE, bytes);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.NEAREST);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.NEAREST);
  }

  begin(back: string): void {
    const gl = this.gl;
    gl.disable(gl.SCISSOR_TEST);
    gl.clearColor(...parseColor(back), 1);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.enable(gl.SCISSOR_TEST);
    gl.useProgram(this.program);
    gl.bindTexture(gl.TEXTURE_2D, this.palette);
    gl.uniform1i(this.u.palette, 0);
    gl.uniform2f(this.u.size, this.width, this.height);
    gl.uniform1f(this.u.least, 1 / this.ratio);
  }

  private buffers(t: Tile): Buffers {
    if (t.gl) return t.gl as Buffers;
    const gl = this.gl;
    const b: Buffers = { vao: gl.createVertexArray()!, buffer: gl.createBuffer()!, from: -1 };
    gl.bindVertexArray(b.vao);
    gl.bindBuffer(gl.ARRAY_BUFFER, b.buffer);
    gl.bufferData(gl.ARRAY_BUFFER, t.bytes, gl.STATIC_DRAW);
    for (let i = 0; i < 4; i++) {
      gl.enableVertexAttribArray(i);
      gl.vertexAttribDivisor(i, 1);
    }
    t.gl = b;
    return b;
  }

  draw(b: Batch, top: number, bottom: number): void {
    const gl = this.gl,
      level = b.tile.levels[b.level];
    if (!level || !level.n) return;
    const v = this.buffers(b.tile);
    gl.bindVertexArray(v.vao);
    if (v.from !== level.from) {
      const o = level.from * RECT_BYTES;
      gl.bindBuffer(gl.ARRAY_BUFFER, v.buffer);
      gl.vertexAttribPointer(0, 2, gl.FLOAT, false, RECT_BYTES, o);
      gl.vertexAttribPointer(1, 2, gl.FLOAT, false, RECT_BYTES, o + 8);
      gl.vertexAttribIPointer(2, 1, gl.UNSIGNED_INT, RECT_BYTES, o + 16);
      gl.vertexAttribIPointer(3, 4, gl.UNSIGNED_BYTE, RECT_BYTES, o + 20);
      v.from = level.from;
    }
    const x0 = Math.max(0, b.clip ? b.clip[0] : 0),
      x1 = Math.min(this.width, b.clip ? b.clip[1] : this.width);
    const y0 = Math.max(top, b.y),
      y1 = Math.min(bottom, b.y + b.h);
    if (x1 <= x0 || y1 <= y0) return;
    const r = this.ratio,
      c = gl.canvas.height;
    const sx = Math.round(x0 * r),
      sy = Math.round(c - y1 * r);
    gl.scissor(sx, sy, Math.max(1, Math.round(x1 * r) - sx), Math.max(1, Math.round(c - y0 * r) - sy));
    gl.uniform4f(this.u.place, b.x, b.scale, b.y, b.h);
    gl.uniform2f(this.u.axis, b.low, Math.max(b.high - b.low, 1e-30));
    gl.uniform1i(this.u.cls, b.cls);
    gl.uniform1i(this.u.paint, CLASS_REPORT + b.tile.report);
    gl.uniform1i(this.u.shift, b.shift);
    gl.uniform1i(this.u.tint, b.tint);
    gl.drawArraysInstanced(gl.TRIANGLE_STRIP, 0, 4, level.n);
  }

  end(): void {
    this.gl.bindVertexArray(null);
  }

  drop(t: Tile): void {
    if (!t.gl) return;
    this.gl.deleteVertexArray((t.gl as Buffers).vao);
    this.gl.deleteBuffer((t.gl as Buffers).buffer);
    t.gl = undefined;
  }
}

/**
 * The same by plain writing of pixels. Tiles have at most one rectangle a pixel and level, so this costs about as much as filling the
 * canvas once: where WebGL2 is emulated by the processor, it is many times faster than that.
 */
export class PixelPainter implements Painter {
  readonly kind = "canvas";
  private c: CanvasRenderingContext2D;
  private image: ImageData;
  private px: Uint32Array;
  private palette = new Uint8Array(0);
  private width = 1;
  private height = 1;
  private ratio = 1;
  private back = 0xffffffff;
  private backColor: [number, number, number] = [255, 255, 255];

  constructor(private canvas: HTMLCanvasElement) {
    this.c = canvas.getContext("2d", { alpha: false, willReadFrequently: true })!;
    this.image = this.c.createImageData(1, 1);
    this.px = new Uint32Array(this.image.data.buffer);
  }

  resize(width: number, height: number, ratio: number): void {
    this.width = this.canvas.width = Math.max(1, Math.round(width * ratio));
    this.height = this.canvas.height = Math.max(1, Math.round(height * ratio));
    this.ratio = ratio;
    this.image = this.c.createImageData(this.width, this.height);
    this.px = new Uint32Array(this.image.data.buffer);
  }

  colors(dark: boolean, palettes: Uint32Array[]): void {
    this.palette = paletteBytes(dark, palettes);
  }

  begin(back: string): void {
    this.backColor = parseColor(back).map((v) => Math.round(v * 255)) as [number, number, number];
    this.back = this.pack(...this.backColor, 1);
    this.px.fill(this.back);
  }

  /** A colour over the background, as the image has it (little-endian, like every machine that runs a browser). */
  private pack(r: number, g: number, b: number, alpha: number): number {
    const [br, bg, bb] = this.backColor,
      mix = (v: number, w: number): number => Math.round(v * alpha + w * (1 - alpha)) & 255;
    return ((255 << 24) | (mix(b, bb) << 16) | (mix(g, bg) << 8) | mix(r, br)) >>> 0;
  }

  private color(t: Tile, r: number, b: Batch, shade: number): number {
    const flags = t.u8[r * 24 + 22],
      name = t.u32[r * 6 + 4];
    if (flags & PREVIEW) {
      const base = (b.cls * 256 + 40) * 4;
      return this.pack(this.palette[base], this.palette[base + 1], this.palette[base + 2], 0.5);
    }
    let row = flags & PAINTED ? CLASS_REPORT + t.report : name >>> 30 === 2 && !(flags & COUNTER) ? CLASS_OWN : b.cls;
    let column = flags & COUNTER ? b.shift : row === CLASS_OWN ? name & 255 : t.u8[r * 24 + 20];
    if (flags & CHOSEN || b.tint >= 0) {
      row = CLASS_CHOSEN;
      column = flags & CHOSEN ? t.u8[r * 24 + 23] : b.tint;
    }
    const at = (row * 256 + column) * 4;
    let [red, green, blue] = [this.palette[at], this.palette[at + 1], this.palette[at + 2]];
    if (flags & GROUP && row === b.cls && row !== CLASS_OWN && row !== 0) {
      const base = (row * 256 + 40) * 4;
      red += (this.palette[base] - red) * 0.8;
      green += (this.palette[base + 1] - green) * 0.8;
      blue += (this.palette[base + 2] - blue) * 0.8;
    }
    if (flags & FADED) return this.pack((red + 156) / 2.2, (green + 156) / 2.2, (blue + 156) / 2.2, 0.25);
    return this.pack(red * shade, green * shade, blue * shade, flags & COUNTER ? 0.85 : 1);
  }

  private fill(x0: number, x1: number, y0: number, y1: number, color: number): void {
    const { px, width } = this;
    if (x1 - x0 < 4) for (let y = y0; y < y1; y++) for (let x = x0, at = y * width; x < x1; x++) px[at + x] = color;
    else for (let y = y0; y < y1; y++) px.fill(color, y * width + x0, y * width + x1);
  }

  draw(b: Batch, top: number, bottom: number): void {
    const t = b.tile,
      level = t.levels[b.level],
      k = this.ratio;
    if (!level || !level.n) return;
    const left = Math.max(0, Math.round((b.clip ? b.clip[0] : 0) * k)),
      right = Math.min(this.width, Math.round(b.clip ? b.clip[1] * k : this.width));
    const y0 = Math.max(0, Math.round(Math.max(top, b.y) * k)),
      y1 = Math.min(this.height, Math.round(Math.min(bottom, b.y + b.h) * k));
    if (right <= left || y1 <= y0) return;
    let r = level.from,
      high = level.from + level.n;
    while (r < high) {
      const mid = (r + high) >> 1;
      if ((b.x + t.f32[mid * 6 + 1] * b.scale) * k < left - 1) r = mid + 1;
      else high = mid;
    }
    for (const end = level.from + level.n; r < end; r++) {
      const a = (b.x + t.f32[r * 6] * b.scale) * k;
      if (a >= right) break;
      this.rect(b, r, a, (b.x + t.f32[r * 6 + 1] * b.scale) * k, [left, right, y0, y1]);
    }
  }

  private rect(b: Batch, r: number, a: number, z: number, [left, right, y0, y1]: [number, number, number, number]): void {
    const t = b.tile,
      flags = t.u8[r * 24 + 22],
      busy = t.u8[r * 24 + 21];
    const wide = z - a > 4 * this.ratio;
    if (z - a > 3) z -= Math.min(1, (z - a) * 0.1);
    const from = Math.max(left, Math.floor(a + 0.001)),
      first = a >= (b.clip ? b.clip[0] : 0) * this.ratio - 0.001, // begins in this tile, whose first pixel may be rounded up beyond it
      to = Math.min(right, Math.max((first ? from : Math.floor(a + 0.001)) + 1, Math.round(z)));
    if (to <= from) return;
    let part = 1;
    if (flags & COUNTER) part = Math.max(0, Math.min(1, (t.f32[r * 6 + 2] - b.low) / Math.max(b.high - b.low, 1e-30)));
    else if (busy < 255) part = Math.max(busy / 255, 0.12);
    const low = Math.round((b.y + b.h) * this.ratio),
      up = Math.max(y0, Math.round(low - b.h * part * this.ratio)),
      down = Math.min(y1, low);
    this.fill(from, to, up, down, this.color(t, r, b, flags & MOMENT ? 0.9 : 1));
    if (!wide || flags & (COUNTER | PREVIEW)) return;
    const dark = this.color(t, r, b, 0.82);
    if (a >= left) this.fill(from, from + 1, up, down, dark);
    if (down === low && down - 1 >= up) this.fill(from, to, down - 1, down, dark);
  }

  end(): void {
    this.c.putImageData(this.image, 0, 0);
  }

  drop(): void {
    /* nothing kept */
  }
}
