"use strict";
// Loads the built-in site through both views at the same time, and shows how long each takes in this browser.
const sides = ["direct", "longhaul"].map((id) => {
  const card = document.getElementById(id);
  return {
    view: card.dataset.view,
    time: card.querySelector(".time"),
    bar: card.querySelector(".bar i"),
    window: card.querySelector(".window"),
    seconds: null,
  };
});
const button = document.getElementById("start");
const verdict = document.getElementById("verdict");
// Seconds of a full bar while the loads run: what the direct load took at the start of the demo.
const expected = Number(document.body.dataset.scale) || 2;

function show(side, seconds, scale) {
  side.time.textContent = `${seconds.toFixed(1)} s`;
  side.bar.style.width = `${Math.min(100, (100 * seconds) / scale)}%`;
}

function load(side) {
  return new Promise((resolve) => {
    const frame = document.createElement("iframe");
    frame.title = "The built-in page";
    frame.tabIndex = -1;
    frame.addEventListener("load", () => resolve(), { once: true });
    frame.src = side.view;
    side.window.replaceChildren(frame);
  });
}

async function compare() {
  button.disabled = true;
  verdict.textContent = "Both are loading now, each over a link of its own.";
  for (const side of sides) {
    side.seconds = null;
    side.window.replaceChildren();
    show(side, 0, 1);
  }
  let answer;
  try {
    answer = await fetch("/start", { method: "POST" });
  } catch {
    verdict.textContent = "The demo does not answer. Does it still run?";
    return;
  }
  if (!answer.ok) {
    verdict.textContent = await answer.text();
    button.disabled = false;
    return;
  }
  const started = performance.now();
  const passed = () => (performance.now() - started) / 1000;
  let running = sides.length;
  const tick = () => {
    const longest = Math.max(...sides.map((side) => side.seconds ?? passed()));
    for (const side of sides) show(side, side.seconds ?? passed(), running ? Math.max(expected, longest) : longest);
    if (running) requestAnimationFrame(tick);
  };
  tick();
  await Promise.all(sides.map(async (side) => {
    await load(side);
    side.seconds = passed();
    running -= 1;
  }));
  tick();
  const [direct, longhaul] = sides.map((side) => side.seconds);
  const factor = direct / longhaul;
  verdict.textContent = factor >= 1.05
    ? `In this browser, Longhaul was ${factor.toFixed(1)} times as fast.`
    : `In this browser, Longhaul was not faster this time (${direct.toFixed(1)} s directly, ${longhaul.toFixed(1)} s).`;
  document.body.dataset.finished = "true";
  button.disabled = false;
}

button.addEventListener("click", compare);
compare();
