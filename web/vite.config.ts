import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

// Relative addresses: the page is served from any folder. Names without hashes: the built page is
// kept in the repository, and a change of one line should not rename every file.
export default defineConfig({
  base: "./",
  plugins: [svelte({ compilerOptions: { runes: true } })],
  build: {
    outDir: "../src/thetascope/explorer/page",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    sourcemap: false,
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    rolldownOptions: {
      output: {
        entryFileNames: "assets/[name].js",
        chunkFileNames: "assets/[name].js",
        assetFileNames: "assets/[name][extname]",
      },
    },
  },
  server: { proxy: { "/data": "http://127.0.0.1:8322", "/api": "http://127.0.0.1:8322" } },
});
