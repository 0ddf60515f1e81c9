// The live signal on the console: lead choice, filter and scale; traces, spectrum and quality per lead.

import { h, prepareCanvas, put } from "./dom.js";
import { t } from "./i18n.js";

const POLL_MS = 700;
const form = document.getElementById("signal-form");
const panel = document.getElementById("signal-panel");
let known = "";
let timer = 0;

// Offers the tracks that have a signal; drawn again only if they changed.
export function offerTracks(tracks) {
  const select = form.elements.track;
  if (select.dataset.tracks === tracks.join()) return;
  select.dataset.tracks = tracks.join();
  const chosen = select.value;
  put(select, tracks.map((track) => h("option", { value: track }, track)));
  if (tracks.includes(chosen)) select.value = chosen;
  known = "";
}

function query() {
  const leads = [...form.elements.leads.selectedOptions].map((option) => option.value);
  const { track, band, mains, seconds } = form.elements;
  return new URLSearchParams({ track: track.value, band: band.value, mains: mains.value, seconds: seconds.value, leads: leads.join(",") });
}

function offerLeads(names) {
  if (known === names.join()) return;
  known = names.join();
  put(form.elements.leads, names.map((name) => h("option", { value: name }, name)));
}

// Half of the amplitude that a row shows, in uV: as chosen, or the 98th percentile of the lead.
function half(trace) {
  if (form.elements.scale.value !== "auto") return Number(form.elements.scale.value) / 2;
  const sizes = trace.map(([low, high]) => Math.max(Math.abs(low), Math.abs(high))).sort((a, b) => a - b);
  return sizes[Math.floor(0.98 * (sizes.length - 1))] || 1;
}

function drawTraces(canvas, signal) {
  const { paint, width, height, property: colour } = prepareCanvas(canvas, () => 12);
  const gutter = 96;
  const row = height / Math.max(1, signal.leads.length);
  const span = (width - gutter) * Math.min(1, signal.shown_s / signal.seconds);
  signal.traces.forEach((trace, lead) => {
    const middle = (lead + 0.5) * row;
    const scale = half(trace);
    const y = (value) => middle - Math.max(-0.5, Math.min(0.5, value / scale / 2)) * row;
    paint.fillStyle = colour("--muted");
    paint.fillText(`${signal.leads[lead]} ±${scale.toPrecision(2)} µV`, 0, middle + 4, gutter - 4);
    paint.strokeStyle = colour("--trace");
    paint.beginPath();
    trace.forEach(([low, high], index) => {
      const x = width - span + (index / trace.length) * span;
      if (index === 0) paint.moveTo(x, y(low));
      paint.lineTo(x, y(low));
      paint.lineTo(x, y(high));
    });
    paint.stroke();
  });
}

function drawSpectrum(canvas, signal) {
  const { paint, width, height, property: colour } = prepareCanvas(canvas, () => 12);
  const [gutter, foot] = [40, 18];
  const values = signal.spectra.flat();
  if (values.length === 0) return;
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const most = signal.frequencies.at(-1);
  const x = (hz) => gutter + (hz / most) * (width - gutter);
  const y = (db) => (height - foot) * (1 - (db - low) / (high - low || 1));
  paint.fillStyle = colour("--muted");
  for (let hz = 0; hz <= most; hz += 20) paint.fillText(`${hz} Hz`, x(hz) - 8, height - 4);
  paint.fillText(`${high.toFixed(0)} dB`, 0, 12);
  paint.fillText(`${low.toFixed(0)} dB`, 0, height - foot);
  signal.spectra.forEach((spectrum, lead) => {
    paint.strokeStyle = colour(`--c${lead % 8}`);
    paint.beginPath();
    spectrum.forEach((db, index) => {
      if (index === 0) paint.moveTo(x(signal.frequencies[index]), y(db));
      else paint.lineTo(x(signal.frequencies[index]), y(db));
    });
    paint.stroke();
  });
}

function drawQuality(quality) {
  const bad = quality.filter(({ verdict }) => verdict !== "good").length;
  document.getElementById("signal-summary").textContent = t("qualitySummary", { bad, total: quality.length });
  put(document.getElementById("signal-quality"), quality.map(({ lead, verdict, spread_uv, line_share }) =>
    h("li", { "data-quality": verdict, title: `${spread_uv} µV, ${t("lineNoise")} ${(100 * line_share).toFixed(0)} %` },
      `${lead} · ${t(verdict)}`)));
}

async function draw() {
  clearTimeout(timer);
  if (!panel.open || !form.elements.track.value) return;
  try {
    const answer = await fetch(`/console/signal?${query()}`, { credentials: "same-origin" });
    if (answer.ok) {
      const signal = await answer.json();
      offerLeads(signal.all_leads);
      drawTraces(document.getElementById("signal-traces"), signal);
      drawSpectrum(document.getElementById("signal-spectrum"), signal);
      drawQuality(signal.quality);
    }
  } catch {
    // the console shows that the connection is lost
  }
  timer = setTimeout(draw, POLL_MS);
}

panel.addEventListener("toggle", draw);
form.addEventListener("change", draw);
form.addEventListener("submit", (event) => event.preventDefault());
