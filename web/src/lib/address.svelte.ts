/** The whole state of the page stands in the address after '#': '#/page?key=value&...'. */

export const PAGES = ["overview", "map", "models", "concepts", "benchmarks", "items", "route"] as const;
export type Page = (typeof PAGES)[number];
export type Params = Record<string, string | number | null | undefined>;

export function parse(hash: string): { page: Page; path: string; params: Map<string, string> } {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?", 2) as [string, string?];
  const page = (PAGES as readonly string[]).includes(path) ? (path as Page) : "overview";
  return { page, path, params: new Map(new URLSearchParams(query)) };
}

/** The address of a page with a state; keys without a value are left out. */
export function href(page: Page, params: Params = {}): string {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(params)) {
    if (value !== null && value !== undefined && value !== "") query.set(key, String(value));
  }
  const text = query.toString();
  return `#/${page}${text ? `?${text}` : ""}`;
}

class Address {
  page = $state<Page>("overview");
  /** The page as the address has it, which may be none that there is. */
  path = $state("");
  params = $state.raw(new Map<string, string>());

  constructor() {
    this.read();
    addEventListener("hashchange", () => this.read());
    addEventListener("popstate", () => this.read());
  }

  read(): void {
    const found = parse(location.hash);
    this.page = found.page;
    this.path = found.path;
    this.params = found.params;
  }

  get(key: string): string | null {
    return this.params.get(key) ?? null;
  }

  /** A whole number from 0 and below `end`, or null: an address may say anything. */
  code(key: string, end: number): number | null {
    const text = this.get(key);
    if (text === null || !/^\d{1,9}$/.test(text)) return null;
    const value = Number(text);
    return value < end ? value : null;
  }

  /** Changes some keys of this page's state; `keep` replaces the entry in the history. */
  set(changes: Params, keep = true): void {
    const all: Params = Object.fromEntries(this.params);
    this.go(this.page, { ...all, ...changes }, keep);
  }

  go(page: Page, params: Params = {}, keep = false): void {
    const to = href(page, params);
    if (to === location.hash) return;
    if (keep) history.replaceState(null, "", to);
    else history.pushState(null, "", to);
    this.read();
  }
}

export const address = new Address();
