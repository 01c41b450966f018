/**
 * Rectangles by WebGL2: each tile is a buffer of instances as the server sent it, and zooming and
 * panning are uniforms. Where there is no WebGL2, or only one that the processor emulates, the same
 * calls write pixels.
 */

import {
  AT_COLOR,
  AT_EVENT,
  AT_FILL,
  AT_FLAGS,
  AT_HIGH,
  AT_LOW,
  AT_NAME,
  AT_SRC,
  AT_X0,
  AT_X1,
  CLASS_OWN,
  CLASS_STATE,
  COUNTER,
  GROUP,
  MOMENT,
  NAME_OURS,
  PAINTED,
  PREVIEW,
  RECT_BYTES,
  RECT_WORDS,
} from "generated/constants";
import { CHOSEN, FADED, type Tile } from "./data";
import { CLASS_CHOSEN, CLASS_REPORT, paletteBytes } from "./colors";

/** How much of its colour something has that is shown only to say that it was there. */
const LIGHT_PART = 0.4;
/** Of a counter, between the least and the greatest value of a pixel. */
const LIGHT_COUNTER = 0.45;

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
  shift: number; // added to the colour: distinguishes counters
  tint: number; // colour chosen for the whole row, -1: none
  mixed: boolean; // something is painted there already that stays in sight
}

export interface Painter {
  resizeCanvas(width: number, height: number, ratio: number): void;
  setColors(dark: boolean, palettes: Uint32Array[]): void;
  beginFrame(back: string): void;
  /** What follows is in the row from y0 to y1, which is below the earlier ones. */
  beginRow(y0: number, y1: number): void;
  drawBatch(b: Batch, top: number, bottom: number): void;
  endFrame(): void;
  dropTile(t: Tile): void;
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
flat out vec4 color, lower;
flat out float split;   // below it the colour is the other
out vec2 at;
flat out vec2 extent;
void main() {
  vec2 corner = vec2(gl_VertexID & 1, gl_VertexID >> 1);
  float x0 = place.x + span.x * place.y, x1 = place.x + span.y * place.y;
  float y0 = place.z, y1 = place.z + place.w, least_value = 0.0;
  uint flags = look.z;
  bool group = (flags & ${GROUP}u) != 0u;
  bool plain = (flags & ${PREVIEW | CHOSEN | FADED}u) == 0u && tint < 0;
  bool parts = group && cls == ${CLASS_STATE} && plain;
  if ((flags & ${COUNTER}u) != 0u) {
    float low = (range.y - axis.x) / axis.y, high = (range.x - axis.x) / axis.y;
    y0 = place.z + place.w * (1.0 - clamp(high, 0.0, 1.0)) - 0.5;
    least_value = place.w * (clamp(high, 0.0, 1.0) - clamp(low, 0.0, 1.0));
  } else if (!parts && (group || float(look.y) < 255.0)) {
    float busy = max(float(look.y) / 255.0, 0.12);
    y0 = y1 - place.w * busy;
  }
  if (x1 - x0 > 3.0) x1 -= min(1.0, (x1 - x0) * 0.1);
  x1 = max(x1, x0 + least);
  vec2 p = vec2(mix(x0, x1, corner.x), mix(y0, y1, corner.y));
  at = (p - vec2(x0, y0));
  extent = vec2(x1 - x0, y1 - y0);
  bool counter = (flags & ${COUNTER}u) != 0u;
  bool ours = (name >> 30) == ${NAME_OURS}u && !counter && cls != ${CLASS_STATE};
  int row = (flags & ${PAINTED}u) != 0u ? paint : ours ? ${CLASS_OWN} : cls;
  int column = counter ? shift : row == ${CLASS_OWN} ? int(name & 255u) : int(look.x);
  if ((flags & ${CHOSEN}u) != 0u || tint >= 0) {
    column = (flags & ${CHOSEN}u) != 0u ? int(look.w) : tint;
    row = ${CLASS_CHOSEN};
  }
  color = texelFetch(palette, ivec2(column, row), 0);
  /* Where many events share a rectangle, the colour of a single one would mislead. */
  if (group && !parts && row != ${CLASS_OWN} && row != ${CLASS_CHOSEN}) {
    vec4 shade = texelFetch(palette, ivec2(row == cls ? 40 : column, row), 0);
    color = mix(color, shade, cls == 0 ? 0.0 : 0.8);
  }
  if ((flags & ${PREVIEW}u) != 0u) color = vec4(texelFetch(palette, ivec2(40, cls), 0).rgb, 0.5);
  else if ((flags & ${COUNTER}u) != 0u) color.a = 0.85;
  if ((flags & ${FADED}u) != 0u) color = vec4(mix(color.rgb, vec3(0.5), 0.55), 0.25);
  if ((flags & ${MOMENT}u) != 0u && !group) color.rgb *= 0.9;
  /* For states: how much was on a core and, lighter, what most of the rest was. */
  split = parts ? extent.y * (1.0 - float(look.y) / 255.0) : extent.y + 1.0;
  lower = texelFetch(palette, ivec2(0, cls), 0);
  if (parts) color.a = ${LIGHT_PART};
  /* For counters: up to the least value in the pixel and, lighter, to the greatest. */
  if (counter && plain) {
    split = least_value;
    lower = color;
    if (least_value > 0.5) color.a = ${LIGHT_COUNTER};
  }
  gl_Position = vec4(p.x / size.x * 2.0 - 1.0, 1.0 - p.y / size.y * 2.0, 0.0, 1.0);
}`;

const FRAGMENT = `#version 300 es
precision mediump float;
flat in vec4 color, lower;
flat in float split;
in vec2 at;
flat in vec2 extent;
out vec4 result;
void main() {
  float shade = extent.x > 4.0 && (at.x < 1.0 || at.y > extent.y - 1.0) ? 0.82 : 1.0;
  vec4 c = at.y > split ? lower : color;
  result = vec4(c.rgb * shade * c.a, c.a);
}`;

function parseColor(text: string): [number, number, number] {
  const value = parseInt(text.slice(1), 16);
  return [((value >> 16) & 255) / 255, ((value >> 8) & 255) / 255, (value & 255) / 255];
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
  static makePainter(canvas: HTMLCanvasElement, any: boolean): GLPainter | null {
    const gl = canvas.getContext("webgl2", {
      alpha: false,
      antialias: false,
      failIfMajorPerformanceCaveat: !any,
      powerPreference: "high-performance",
    });
    try {
      return gl && (any || !GLPainter.isEmulated(gl)) ? new GLPainter(gl) : null;
    } catch {
      return null;
    }
  }

  private static isEmulated(gl: WebGL2RenderingContext): boolean {
    const info = gl.getExtension("WEBGL_debug_renderer_info");
    return /swiftshader|llvmpipe|softpipe|software|basic render/i.test(
      String(gl.getParameter(info ? info.UNMASKED_RENDERER_WEBGL : gl.RENDERER)),
    );
  }

  private constructor(private gl: WebGL2RenderingContext) {
    const compileShader = (type: number, source: string): WebGLShader => {
      const s = gl.createShader(type)!;
      gl.shaderSource(s, source);
      gl.compileShader(s);
      if (!gl.getShaderParameter(s, gl.COMPILE_STATUS))
        throw new Error(gl.getShaderInfoLog(s) ?? "shader");
      return s;
    };
    this.program = gl.createProgram()!;
    gl.attachShader(this.program, compileShader(gl.VERTEX_SHADER, VERTEX));
    gl.attachShader(this.program, compileShader(gl.FRAGMENT_SHADER, FRAGMENT));
    gl.linkProgram(this.program);
    if (!gl.getProgramParameter(this.program, gl.LINK_STATUS))
      throw new Error(gl.getProgramInfoLog(this.program) ?? "program");
    for (const n of ["size", "place", "axis", "cls", "paint", "shift", "tint", "least", "palette"])
      this.u[n] = gl.getUniformLocation(this.program, n);
    this.palette = gl.createTexture();
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  }

  resizeCanvas(width: number, height: number, ratio: number): void {
    const element = this.gl.canvas as HTMLCanvasElement;
    this.width = width;
    this.height = height;
    this.ratio = ratio;
    element.width = Math.max(1, Math.round(width * ratio));
    element.height = Math.max(1, Math.round(height * ratio));
    this.gl.viewport(0, 0, element.width, element.height);
  }

  setColors(dark: boolean, palettes: Uint32Array[]): void {
    const gl = this.gl;
    gl.bindTexture(gl.TEXTURE_2D, this.palette);
    const bytes = paletteBytes(dark, palettes);
    gl.texImage2D(
      gl.TEXTURE_2D,
      0,
      gl.RGBA,
      256,
      bytes.length / 1024,
      0,
      gl.RGBA,
      gl.UNSIGNED_BYTE,
      bytes,
    );
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.NEAREST);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.NEAREST);
  }

  beginFrame(back: string): void {
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

  beginRow(): void {
    /* rectangles are cut to where they belong */
  }

  private makeBuffers(tile: Tile): Buffers {
    if (tile.gl) return tile.gl as Buffers;
    const gl = this.gl;
    const buffers: Buffers = { vao: gl.createVertexArray()!, buffer: gl.createBuffer()!, from: -1 };
    gl.bindVertexArray(buffers.vao);
    gl.bindBuffer(gl.ARRAY_BUFFER, buffers.buffer);
    gl.bufferData(gl.ARRAY_BUFFER, tile.bytes, gl.STATIC_DRAW);
    for (let i = 0; i < 4; i++) {
      gl.enableVertexAttribArray(i);
      gl.vertexAttribDivisor(i, 1);
    }
    tile.gl = buffers;
    return buffers;
  }

  drawBatch(batch: Batch, top: number, bottom: number): void {
    const gl = this.gl,
      level = batch.tile.levels[batch.level];
    if (!level || !level.n) return;
    const buffers = this.makeBuffers(batch.tile);
    gl.bindVertexArray(buffers.vao);
    if (buffers.from !== level.from) {
      const offset = level.from * RECT_BYTES;
      gl.bindBuffer(gl.ARRAY_BUFFER, buffers.buffer);
      gl.vertexAttribPointer(0, 2, gl.FLOAT, false, RECT_BYTES, offset);
      gl.vertexAttribPointer(1, 2, gl.FLOAT, false, RECT_BYTES, offset + AT_EVENT * 4);
      gl.vertexAttribIPointer(2, 1, gl.UNSIGNED_INT, RECT_BYTES, offset + AT_NAME * 4);
      gl.vertexAttribIPointer(3, 4, gl.UNSIGNED_BYTE, RECT_BYTES, offset + AT_COLOR);
      buffers.from = level.from;
    }
    const x0 = Math.max(0, batch.clip ? batch.clip[0] : 0),
      x1 = Math.min(this.width, batch.clip ? batch.clip[1] : this.width);
    const y0 = Math.max(top, batch.y),
      y1 = Math.min(bottom, batch.y + batch.h);
    if (x1 <= x0 || y1 <= y0) return;
    const ratio = this.ratio,
      c = gl.canvas.height;
    const sx = Math.round(x0 * ratio),
      sy = Math.round(c - y1 * ratio);
    gl.scissor(
      sx,
      sy,
      Math.max(1, Math.round(x1 * ratio) - sx),
      Math.max(1, Math.round(c - y0 * ratio) - sy),
    );
    gl.uniform4f(this.u.place, batch.x, batch.scale, batch.y, batch.h);
    gl.uniform2f(this.u.axis, batch.low, Math.max(batch.high - batch.low, 1e-30));
    gl.uniform1i(this.u.cls, batch.cls);
    gl.uniform1i(this.u.paint, CLASS_REPORT + batch.tile.report);
    gl.uniform1i(this.u.shift, batch.shift);
    gl.uniform1i(this.u.tint, batch.tint);
    gl.drawArraysInstanced(gl.TRIANGLE_STRIP, 0, 4, level.n);
  }

  endFrame(): void {
    this.gl.bindVertexArray(null);
  }

  dropTile(tile: Tile): void {
    if (!tile.gl) return;
    this.gl.deleteVertexArray((tile.gl as Buffers).vao);
    this.gl.deleteBuffer((tile.gl as Buffers).buffer);
    tile.gl = undefined;
  }
}

/**
 * The same by plain writing of pixels, row by row: a row of the page is a small image, which stays
 * in the processor's cache until it is whole. Tiles have at most one rectangle a pixel and level,
 * and these begin at few different heights, so lines of pixels are copies of the line above but for
 * those that begin there. Where WebGL2 is emulated by the processor, this is many times faster.
 */
export class PixelPainter implements Painter {
  readonly kind = "canvas";
  /**
   * Text goes onto the same canvas: a second one would cost as much memory again, and laying one
   * over the other as much time.
   */
  readonly context: CanvasRenderingContext2D;
  private image: ImageData | null = null;
  private px = new Uint32Array(0);
  private palette = new Uint8Array(0);
  // the palette's colours as pixels: as they are, darker, as groups have them, as what hardly
  // shows
  private plain = new Uint32Array(0);
  private dark = new Uint32Array(0);
  private grouped = new Uint32Array(0);
  private light = new Uint32Array(0);
  private faint = new Uint32Array(0);
  private width = 1;
  private height = 1;
  private ratio = 1;
  private back = 0xffffffff;
  private backText = "";
  private backColor: [number, number, number] = [255, 255, 255];
  private top = 0; // of the row, device pixels
  private lines = 0;
  private version = 0; // of the colours
  private done = 0; // what is above has been painted
  /* What is to be painted of a batch: from..to in lines up..down. */
  private n = 0;
  private from = new Int32Array(4096);
  private to = new Int32Array(4096);
  private up = new Int32Array(4096);
  private fill = new Uint32Array(4096);
  private next = new Int32Array(4096); // of those that begin at the same line
  private first = new Int32Array(64);
  private edges: number[] = []; // from, to, colour: the last line of wide ones

  constructor(private canvas: HTMLCanvasElement) {
    this.context = canvas.getContext("2d", { alpha: false, willReadFrequently: true })!;
  }

  resizeCanvas(width: number, height: number, ratio: number): void {
    this.width = this.canvas.width = Math.max(1, Math.round(width * ratio));
    this.height = this.canvas.height = Math.max(1, Math.round(height * ratio));
    this.ratio = ratio;
    this.image = null;
  }

  setColors(dark: boolean, palettes: Uint32Array[]): void {
    this.palette = paletteBytes(dark, palettes);
    this.mixPalettes();
  }

  private mixPalettes(): void {
    this.version++;
    const bytes = this.palette,
      n = bytes.length / 4;
    [this.plain, this.dark, this.grouped, this.light, this.faint] = [0, 0, 0, 0, 0].map(
      () => new Uint32Array(n),
    );
    for (let i = 0; i < n; i++) {
      const [red, green, blue] = bytes.subarray(i * 4, i * 4 + 3),
        base = ((i >> 8) * 256 + 40) * 4;
      this.plain[i] = this.packColor(red, green, blue, 1);
      this.dark[i] = this.packColor(red * 0.82, green * 0.82, blue * 0.82, 1);
      this.grouped[i] = this.packColor(
        red + (bytes[base] - red) * 0.8,
        green + (bytes[base + 1] - green) * 0.8,
        blue + (bytes[base + 2] - blue) * 0.8,
        1,
      );
      this.light[i] = this.packColor(red, green, blue, LIGHT_PART);
      this.faint[i] = this.packColor(red, green, blue, LIGHT_COUNTER);
    }
  }

  beginFrame(back: string): void {
    if (back !== this.backText) {
      this.backText = back;
      this.backColor = parseColor(back).map((value) => Math.round(value * 255)) as [
        number,
        number,
        number,
      ];
      this.back = this.packColor(...this.backColor, 1);
      this.mixPalettes();
    }
    this.context.setTransform(1, 0, 0, 1, 0, 0);
    this.lines = this.done = 0;
  }

  private clearTo(y: number): void {
    if (y <= this.done) return;
    this.context.fillStyle = this.backText;
    this.context.fillRect(0, this.done, this.width, y - this.done);
    this.done = y;
  }

  private flushRow(): void {
    if (this.lines)
      this.context.putImageData(this.image!, 0, this.top, 0, 0, this.width, this.lines);
    this.lines = 0;
  }

  beginRow(y0: number, y1: number): void {
    this.flushRow();
    this.top = Math.max(this.done, Math.min(this.height, Math.round(y0 * this.ratio)));
    this.lines = Math.max(0, Math.min(this.height, Math.round(y1 * this.ratio)) - this.top);
    this.clearTo(this.top);
    this.done = this.top + this.lines;
    if (!this.image || this.image.height < this.lines) {
      this.image = this.context.createImageData(this.width, Math.max(64, this.lines));
      this.px = new Uint32Array(this.image.data.buffer);
    }
    this.px.fill(this.back, 0, this.lines * this.width);
  }

  /**
   * A colour over the background, as the image has it (little-endian, like every machine that
   * runs a browser).
   */
  private packColor(red: number, green: number, blue: number, alpha: number): number {
    const [br, bg, bb] = this.backColor,
      rest = 1 - alpha;
    return (
      ((255 << 24) |
        (Math.round(blue * alpha + bb * rest) << 16) |
        (Math.round(green * alpha + bg * rest) << 8) |
        Math.round(red * alpha + br * rest)) >>>
      0
    );
  }

  /** Where in the palette a rectangle's colour is. */
  private findPlace(tile: Tile, rect: number, flags: number, batch: Batch): number {
    if (flags & CHOSEN) return CLASS_CHOSEN * 256 + tile.u8[rect * RECT_BYTES + AT_SRC];
    if (batch.tint >= 0) return CLASS_CHOSEN * 256 + batch.tint;
    if (flags & COUNTER) return batch.cls * 256 + batch.shift;
    if (flags & PREVIEW) return batch.cls * 256 + 40;
    if (flags & PAINTED)
      return (CLASS_REPORT + tile.report) * 256 + tile.u8[rect * RECT_BYTES + AT_COLOR];
    if (batch.cls !== CLASS_STATE && tile.u32[rect * RECT_WORDS + AT_NAME] >>> 30 === NAME_OURS)
      return CLASS_OWN * 256 + (tile.u32[rect * RECT_WORDS + AT_NAME] & 255);
    return batch.cls * 256 + tile.u8[rect * RECT_BYTES + AT_COLOR];
  }

  private pickColor(at: number, flags: number, batch: Batch): number {
    if (
      batch.cls === CLASS_STATE &&
      flags & GROUP &&
      !(flags & (FADED | PREVIEW | CHOSEN)) &&
      batch.tint < 0
    )
      return this.light[at];
    if (!(flags & (FADED | PREVIEW | COUNTER | MOMENT)))
      return flags & GROUP && at >> 8 === batch.cls && batch.cls !== CLASS_OWN && batch.cls !== 0
        ? this.grouped[at]
        : this.plain[at];
    const [red, green, blue] = this.palette.subarray(at * 4, at * 4 + 3);
    if (flags & PREVIEW) return this.packColor(red, green, blue, 0.5);
    if (flags & FADED)
      return this.packColor((red + 156) / 2.2, (green + 156) / 2.2, (blue + 156) / 2.2, 0.25);
    return flags & COUNTER
      ? this.packColor(red, green, blue, 0.85)
      : this.packColor(red * 0.9, green * 0.9, blue * 0.9, 1);
  }

  drawBatch(batch: Batch, top: number, bottom: number): void {
    const tile = batch.tile,
      floats = tile.f32,
      level = tile.levels[batch.level],
      ratio = this.ratio;
    if (!level || !level.n) return;
    const left = Math.max(0, Math.round((batch.clip ? batch.clip[0] : 0) * ratio)),
      right = Math.min(this.width, Math.round(batch.clip ? batch.clip[1] * ratio : this.width));
    const y0 = Math.max(0, Math.round(Math.max(top, batch.y) * ratio) - this.top),
      low = Math.round((batch.y + batch.h) * ratio) - this.top,
      y1 = Math.min(this.lines, low, Math.round(bottom * ratio) - this.top);
    if (right <= left || y1 <= y0) return;
    const begin = (batch.clip ? batch.clip[0] : 0) * ratio - 0.001,
      x = batch.x * ratio,
      scale = batch.scale * ratio;
    let rect = level.from,
      high = level.from + level.n;
    while (rect < high) {
      const mid = (rect + high) >> 1;
      if (x + floats[mid * RECT_WORDS + AT_X1] * scale < left - 1) rect = mid + 1;
      else high = mid;
    }
    this.n = 0;
    this.edges.length = 0;
    const { u8 } = tile,
      fill = this.colorsOf(batch),
      states = batch.cls === CLASS_STATE && batch.tint < 0;
    for (const end = level.from + level.n; rect < end; rect++) {
      const a = x + floats[rect * RECT_WORDS + AT_X0] * scale;
      if (a >= right) break;
      let z = x + floats[rect * RECT_WORDS + AT_X1] * scale;
      const length = z - a;
      if (length > 3) z -= length > 10 ? 1 : length * 0.1;
      let from = (a + 0.001) | 0, // for what is left of 0 the next line holds
        to = (z + 0.5) | 0;
      if (to <= from) to = from + 1;
      if (from < left) {
        from = left;
        // begins in this tile, whose first pixel may be rounded up beyond it
        if (to <= from && a >= begin) to = from + 1;
      }
      if (to > right) to = right;
      if (to <= from) continue;
      const busy = u8[rect * RECT_BYTES + AT_FILL],
        flags = u8[rect * RECT_BYTES + AT_FLAGS];
      if (flags & COUNTER) {
        const height = (value: number): number =>
            Math.max(0, Math.min(1, (value - batch.low) / Math.max(batch.high - batch.low, 1e-30))),
          lineOf = (value: number): number =>
            Math.max(y0, Math.round(low - batch.h * height(value) * ratio)),
          most = lineOf(floats[rect * RECT_WORDS + AT_HIGH]),
          least = lineOf(floats[rect * RECT_WORDS + AT_LOW]);
        /* Up to the least value in the pixel and, lighter, to the greatest. */
        if (least > most && batch.tint < 0)
          this.addSpan(from, to, most, this.faint[batch.cls * 256 + batch.shift]);
        this.addSpan(from, to, batch.tint < 0 ? least : most, fill[rect]);
      } else if (states && flags & GROUP && !(flags & (PREVIEW | CHOSEN | FADED))) {
        /* How much of it was on a core, and lighter what was most of the rest. */
        this.addSpan(from, to, y0, fill[rect]);
        if (busy)
          this.addSpan(
            from,
            to,
            Math.max(y0, Math.round(low - (batch.h * ratio * busy) / 255)),
            this.plain[batch.cls * 256],
          );
      } else {
        const up =
          busy === 255
            ? y0
            : Math.max(y0, Math.round(low - batch.h * ratio * Math.max(busy / 255, 0.12)));
        this.addSpan(from, to, up, fill[rect]);
        if (length > 4 * ratio && !(flags & (PREVIEW | FADED)))
          this.drawEdge(
            from,
            to,
            up,
            a >= left,
            this.dark[this.findPlace(tile, rect, flags, batch)],
          );
      }
    }
    if (batch.mixed) this.paintOver(y0, y1, low);
    else this.paintSpan(left, right, y0, y1, low);
  }

  private drawEdge(from: number, to: number, up: number, begins: boolean, color: number): void {
    if (begins) this.addSpan(from, from + 1, up, color);
    this.edges.push(from, to, color);
  }

  /** The colours of a tile's rectangles as pixels, kept with it. */
  private colorsOf(batch: Batch): Uint32Array {
    const { tile } = batch,
      key = `${this.version} ${batch.cls} ${batch.tint} ${batch.shift}`,
      kept = tile.gl as { key: string; fill: Uint32Array } | undefined;
    if (kept?.key === key) return kept.fill;
    const fill = new Uint32Array(tile.rects);
    for (let rect = 0; rect < tile.rects; rect++) {
      const flags = tile.u8[rect * RECT_BYTES + AT_FLAGS];
      fill[rect] = this.pickColor(this.findPlace(tile, rect, flags, batch), flags, batch);
    }
    tile.gl = { key, fill };
    return fill;
  }

  private addSpan(from: number, to: number, up: number, color: number): void {
    let { n } = this;
    if (n) {
      /*
       * Of two in one pixel the later one is in front; the part of the earlier one below it is
       * hidden.
       */
      if (this.to[n - 1] > from)
        for (let i = n - 1; i >= 0 && i > n - 5; i--)
          if (this.to[i] > from && this.up[i] > up) this.to[i] = Math.max(this.from[i], from);
      if (
        this.fill[n - 1] === color &&
        this.to[n - 1] >= from &&
        this.up[n - 1] === up &&
        this.from[n - 1] <= from
      ) {
        this.to[n - 1] = Math.max(this.to[n - 1], to);
        return;
      }
    }
    if (n === this.from.length) this.widenSpans();
    this.from[n] = from;
    this.to[n] = to;
    this.up[n] = up;
    this.fill[n++] = color;
    this.n = n;
  }

  private widenSpans(): void {
    const copyInto = <T extends Int32Array | Uint32Array>(old: T, fresh: T): T => (
      fresh.set(old), fresh
    );
    const n = this.n * 2;
    this.from = copyInto(this.from, new Int32Array(n));
    this.to = copyInto(this.to, new Int32Array(n));
    this.up = copyInto(this.up, new Int32Array(n));
    this.next = new Int32Array(n);
    this.fill = copyInto(this.fill, new Uint32Array(n));
  }

  /** Line by line: what the line above has, and what begins here. */
  private paintSpan(left: number, right: number, y0: number, y1: number, low: number): void {
    const { px, width, from, to, next, fill } = this;
    if (this.first.length < y1) this.first = new Int32Array(y1 * 2);
    const first = this.first.fill(-1, y0, y1);
    for (let i = this.n - 1; i >= 0; i--) {
      if (this.up[i] >= y1) continue;
      next[i] = first[this.up[i]];
      first[this.up[i]] = i;
    }
    for (let y = y0, line = y0 * width; y < y1; y++, line += width) {
      if (y > y0) px.copyWithin(line + left, line - width + left, line - width + right);
      for (let i = first[y]; i >= 0; i = next[i]) {
        const color = fill[i];
        if (to[i] - from[i] > 16) px.fill(color, line + from[i], line + to[i]);
        else for (let at = line + from[i], end = line + to[i]; at < end; at++) px[at] = color;
      }
    }
    this.paintEdges(y1, low);
  }

  /** The same where something is painted already that stays. */
  private paintOver(y0: number, y1: number, low: number): void {
    const { px, width } = this;
    for (let i = 0; i < this.n; i++)
      for (let y = Math.max(y0, this.up[i]); y < y1; y++)
        px.fill(this.fill[i], y * width + this.from[i], y * width + this.to[i]);
    this.paintEdges(y1, low);
  }

  private paintEdges(y1: number, low: number): void {
    if (y1 === low)
      for (let i = 0; i < this.edges.length; i += 3)
        this.px.fill(
          this.edges[i + 2],
          (y1 - 1) * this.width + this.edges[i],
          (y1 - 1) * this.width + this.edges[i + 1],
        );
  }

  endFrame(): void {
    this.flushRow();
    this.clearTo(this.height);
  }

  dropTile(tile: Tile): void {
    tile.gl = undefined;
  }
}
