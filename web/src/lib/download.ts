/** Figures and tables as files. */

export function save(name: string, content: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export type CsvValue = string | number | null | undefined;

/** A table as CSV, figures to six digits; a text that a spreadsheet would run as a formula is told apart by an apostrophe. */
export function csv(head: string[], rows: CsvValue[][]): string {
  const one = (value: CsvValue): string => {
    if (value === null || value === undefined || (typeof value === "number" && !Number.isFinite(value))) return "";
    if (typeof value === "number") return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(6)));
    const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [head, ...rows].map((row) => row.map(one).join(",")).join("\r\n") + "\r\n";
}

export interface CsvTable {
  head: string[];
  rows: CsvValue[][];
}

/** The same table with shares, and differences of shares, in percent or points; the head says so. */
export function hundredfold({ head, rows }: CsvTable, units: Record<string, "%" | "points">): CsvTable {
  return {
    head: head.map((name) => (name in units ? `${name}, ${units[name]}` : name)),
    rows: rows.map((row) => row.map((value, k) => (head[k] in units && typeof value === "number" ? 100 * value : value))),
  };
}

export function saveCsv(name: string, head: string[], rows: CsvValue[][]): void {
  save(`${name}.csv`, new Blob(["﻿", csv(head, rows)], { type: "text/csv" }));
}

/** A drawing that stands alone: its own size, ground, colour and font. */
export function svgText(drawing: SVGSVGElement): string {
  const copy = drawing.cloneNode(true) as SVGSVGElement;
  const style = getComputedStyle(drawing);
  const ground = getComputedStyle(document.documentElement).getPropertyValue("--ground").trim();
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("style", `background:${ground};color:${style.color};font:12px system-ui,sans-serif`);
  return new XMLSerializer().serializeToString(copy);
}

export function saveSvg(name: string, drawing: SVGSVGElement): void {
  save(`${name}.svg`, new Blob([svgText(drawing)], { type: "image/svg+xml" }));
}

export async function savePng(name: string, drawing: SVGSVGElement | HTMLCanvasElement): Promise<void> {
  const canvas = drawing instanceof HTMLCanvasElement ? drawing : await rastered(drawing);
  const content = await new Promise<Blob | null>((done) => canvas.toBlob(done, "image/png"));
  if (content) save(`${name}.png`, content);
}

async function rastered(drawing: SVGSVGElement, scale = 2): Promise<HTMLCanvasElement> {
  const box = drawing.getBoundingClientRect();
  const image = new Image();
  const url = URL.createObjectURL(new Blob([svgText(drawing)], { type: "image/svg+xml" }));
  image.src = url;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = Math.ceil(box.width * scale);
  canvas.height = Math.ceil(box.height * scale);
  const context = canvas.getContext("2d")!;
  context.scale(scale, scale);
  context.drawImage(image, 0, 0, box.width, box.height);
  URL.revokeObjectURL(url);
  return canvas;
}

export function fileName(title: string): string {
  return title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60) || "figure";
}
