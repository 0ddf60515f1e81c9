// The live signal, on a canvas.

import { prepareCanvas } from "./dom.js";

const SECONDS = 6;
const signals = new Map();

// Keeps the last seconds of each track's signal; columns are [value of lead 1, lead 2, ...].
export function addSignal(track, piece) {
  let signal = signals.get(track);
  if (!signal || signal.rate !== piece.rate || signal.leads.length !== piece.leads.length) {
    signal = { rate: piece.rate, leads: piece.leads, columns: [] };
    signals.set(track, signal);
  }
  signal.columns.push(...piece.columns);
  signal.columns.splice(0, signal.columns.length - Math.round(SECONDS * signal.rate));
}

export function clearSignals() {
  signals.clear();
}

export function hasSignal(track) {
  return (signals.get(track)?.columns.length ?? 0) > 1;
}

function median(values) {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
}

// Median and amplitude of a lead's trace; amplifiers may have large offsets.
function extent(columns, lead) {
  const values = columns.map((column) => column[lead]);
  const centre = median(values);
  const swings = values.map((value) => Math.abs(value - centre)).sort((a, b) => a - b);
  return { centre, swing: swings[Math.floor(0.98 * (swings.length - 1))] || 1 };
}

export function drawSignal(canvas, track) {
  const signal = signals.get(track);
  if (!signal || signal.columns.length < 2) return;
  const { paint, width, height, property } = prepareCanvas(canvas, (high) => Math.max(10, high / 22));
  const gutter = 40;
  const rowHeight = height / signal.leads.length;
  const total = Math.round(SECONDS * signal.rate);
  signal.leads.forEach((name, lead) => {
    const middle = (lead + 0.5) * rowHeight;
    const { centre, swing } = extent(signal.columns, lead);
    const scale = (0.46 * rowHeight) / swing;
    paint.fillStyle = property("--muted");
    paint.fillText(name, 0, middle + 4, gutter - 6);
    paint.strokeStyle = property("--trace");
    paint.lineWidth = 1.2;
    paint.beginPath();
    signal.columns.forEach((column, index) => {
      const x = gutter + ((total - signal.columns.length + index) / total) * (width - gutter);
      const y = middle - Math.max(-0.5 * rowHeight, Math.min(0.5 * rowHeight, (column[lead] - centre) * scale));
      if (index === 0) paint.moveTo(x, y);
      else paint.lineTo(x, y);
    });
    paint.stroke();
  });
}
