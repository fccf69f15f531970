/** Colours that people with any kind of colour vision tell apart, on light and on dark ground. */

export type Rgb = [number, number, number];

// Okabe and Ito's palette without black and yellow (they vanish on one of the grounds), and three
// of Tol's muted that stay apart from them.
const NAMES = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#882255", "#8f8a2a"];
export const OTHER = "#8a8f98";

// Cividis (Nunez and others 2018) and a blue-orange diverging scale, at equal steps.
const CIVIDIS = ["#00224e", "#1e3a6f", "#46506d", "#636776", "#7f7d78", "#a09774", "#c2b166", "#e2cc4f", "#fee838"];
// The same with a first half that stands out from a dark ground.
const CIVIDIS_DARK = ["#3d63b8", "#5570a6", "#687a99", "#7c858d", "#908f80", "#a69d72", "#c2b166", "#e2cc4f", "#fee838"];
const DIVERGING = ["#b35806", "#e08214", "#f2b268", "#d9cbb8", "#c3c7d0", "#a6b3d6", "#6f8bc5", "#3a5fa8", "#173a7a"];

export function rgb(hex: string): Rgb {
  const value = parseInt(hex.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

function ramp(stops: string[]): Uint8Array {
  const out = new Uint8Array(256 * 3);
  const colors = stops.map(rgb);
  for (let i = 0; i < 256; i++) {
    const at = (i / 255) * (colors.length - 1);
    const k = Math.min(colors.length - 2, Math.floor(at));
    for (let c = 0; c < 3; c++) {
      out[3 * i + c] = Math.round(colors[k][c] + (at - k) * (colors[k + 1][c] - colors[k][c]));
    }
  }
  return out;
}

const RAMPS = { light: ramp(CIVIDIS), dark: ramp(CIVIDIS_DARK), diverging: ramp(DIVERGING) };

export function stops(kind: Scale["kind"], dark: boolean): string[] {
  return kind === "diverging" ? DIVERGING : dark ? CIVIDIS_DARK : CIVIDIS;
}

export function category(k: number): string {
  return k >= 0 && k < NAMES.length ? NAMES[k] : OTHER;
}
export const N_CATEGORIES = NAMES.length;

export interface Scale {
  kind: "sequential" | "diverging";
  low: number;
  high: number;
}

/** RGBA of every value; what is not known is grey and faint. */
export function paint(values: Float32Array, scale: Scale, dark: boolean): Uint8Array {
  const colors = RAMPS[scale.kind === "diverging" ? "diverging" : dark ? "dark" : "light"];
  const out = new Uint8Array(values.length * 4);
  const factor = 255 / Math.max(scale.high - scale.low, 1e-9);
  for (let i = 0; i < values.length; i++) {
    const v = values[i];
    if (v !== v) {
      out.set([138, 143, 152, 70], 4 * i);
      continue;
    }
    const k = 3 * Math.max(0, Math.min(255, Math.round((v - scale.low) * factor)));
    out[4 * i] = colors[k];
    out[4 * i + 1] = colors[k + 1];
    out[4 * i + 2] = colors[k + 2];
    out[4 * i + 3] = 215;
  }
  return out;
}

/** RGBA of codes; `order` gives the codes that have a colour of their own, the rest are grey. */
export function paintCodes(codes: Int32Array, order: number[]): Uint8Array {
  const place = new Map(order.map((code, k) => [code, rgb(category(k))]));
  const grey = rgb(OTHER);
  const out = new Uint8Array(codes.length * 4);
  for (let i = 0; i < codes.length; i++) {
    const color = place.get(codes[i]);
    out.set(color ?? grey, 4 * i);
    out[4 * i + 3] = color ? 215 : 90;
  }
  return out;
}
