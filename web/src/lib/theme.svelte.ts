/** Dark or light: as the system says, until the reader chooses. */
const KEY = "thetascope-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

function chosen(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // storage is shut in some frames
  }
}

class Theme {
  own = $state(chosen());
  system = $state(system.matches);
  dark = $derived(this.own ? this.own === "dark" : this.system);

  constructor() {
    system.addEventListener("change", (e) => (this.system = e.matches));
    this.apply();
  }

  toggle(): void {
    this.own = this.dark ? "light" : "dark";
    try {
      localStorage.setItem(KEY, this.own);
    } catch {
      // then it holds until the page is closed
    }
    this.apply();
  }

  private apply(): void {
    if (this.own === "dark" || this.own === "light") document.documentElement.dataset.theme = this.own;
  }
}

export const theme = new Theme();
