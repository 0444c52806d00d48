import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

export default defineConfig({
  plugins: [svelte()],
  // `npm run dev` edits against a service started separately.
  server: { host: "127.0.0.1", proxy: { "/api": "http://127.0.0.1:8787" } },
  build: {
    target: "es2023",
    // The content security policy allows neither data: URLs nor inline code.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    cssCodeSplit: false,
    // The service revalidates by digest, so names need none, and a rebuild changes few lines.
    rollupOptions: {
      output: { entryFileNames: "assets/[name].js", assetFileNames: "assets/[name][extname]" },
    },
  },
  test: { include: ["src/**/*.test.ts"], environment: "node", css: true },
});
