import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

const service = process.env["VIGIL_URL"] ?? "http://127.0.0.1:8080";

export default defineConfig({
  plugins: [react()],
  build: {
    // The Python package serves and carries what is built here: service/api/pages.py.
    outDir: "../service/page",
    emptyOutDir: true,
    // Nothing may be inlined: the content security policy allows no data: and no inline style or script.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  server: { proxy: { "/api": service, "/healthz": service } },
});
