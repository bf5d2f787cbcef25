"use strict";
// Says how long this load took, from the browser's own clock.
addEventListener("load", () => setTimeout(() => {
  const [page] = performance.getEntriesByType("navigation");
  if (!page) return;
  const parts = performance.getEntriesByType("resource").length;
  document.getElementById("time").textContent = `${Math.round(page.loadEventEnd || page.duration)} ms`;
  document.getElementById("count").textContent = String(parts);
  document.getElementById("timing").hidden = false;
}, 0));
