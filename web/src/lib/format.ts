/** Numbers as a person reads them. What is not known is a dash. */

export const NONE = "–";

export function known(value: number | null | undefined): value is number {
  return value !== null && value !== undefined && Number.isFinite(value);
}

export function fixed(value: number | null | undefined, digits = 2): string {
  if (!known(value)) return NONE;
  const text = Math.abs(value).toFixed(digits);
  return value < 0 && Number(text) !== 0 ? `−${text}` : text;
}

export function count(value: number | null | undefined): string {
  return known(value) ? Math.round(value).toLocaleString("en-US") : NONE;
}

export function percent(value: number | null | undefined, digits = 1): string {
  return known(value) ? `${fixed(100 * value, digits)} %` : NONE;
}

/** A difference of two shares, in points. */
export function points(value: number | null | undefined, digits = 1): string {
  if (!known(value)) return NONE;
  const text = fixed(100 * value, digits);
  return text.startsWith("−") || Number(text) === 0 ? text : `+${text}`;
}

export function range(
  low: number | null | undefined,
  high: number | null | undefined,
  scale = 100,
  digits = 1,
): string {
  if (!known(low) || !known(high)) return NONE;
  return `[${fixed(scale * low, digits)}, ${fixed(scale * high, digits)}]`;
}

export function probability(value: number | null | undefined): string {
  if (!known(value)) return NONE;
  if (value < 0.001) return "< .001";
  const text = value.toFixed(value < 0.1 ? 3 : 2);
  return text.startsWith("0") ? text.slice(1) : text;
}

export function money(value: number | null | undefined): string {
  if (!known(value)) return NONE;
  return value < 0.01 && value > 0 ? value.toPrecision(2) : value.toFixed(2);
}

export function plural(n: number, word: string, more = `${word}s`): string {
  return `${count(n)} ${n === 1 ? word : more}`;
}

/** At most `length` characters, an ellipsis for the rest; whole characters only. */
export function short(text: string, length: number): string {
  const characters = Array.from(text);
  return characters.length <= length ? text : `${characters.slice(0, length - 1).join("")}…`;
}
