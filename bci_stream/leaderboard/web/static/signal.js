// A small live view of the signal, swept like a bedside monitor, on a canvas.

const SECONDS = 6;
const sweeps = new Map();

// Keeps the last seconds of each track's signal; columns are [value of lead 1, lead 2, ...].
export function addSignal(track, piece) {
  let sweep = sweeps.get(track);
  if (!sweep || sweep.rate !== piece.rate || sweep.leads.length !== piece.leads.length) {
    sweep = { rate: piece.rate, leads: piece.leads, columns: [] };
    sweeps.set(track, sweep);
  }
  sweep.columns.push(...piece.columns);
  sweep.columns.splice(0, sweep.columns.length - Math.round(SECONDS * sweep.rate));
}

export function forgetSignals() {
  sweeps.clear();
}

export function hasSignal(track) {
  return (sweeps.get(track)?.columns.length ?? 0) > 1;
}

function median(values) {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
}

// Where a lead's trace lies and how far it swings; amplifiers may have large offsets.
function extent(columns, lead) {
  const values = columns.map((column) => column[lead]);
  const centre = median(values);
  const swings = values.map((value) => Math.abs(value - centre)).sort((a, b) => a - b);
  return { centre, swing: swings[Math.floor(0.98 * (swings.length - 1))] || 1 };
}

export function drawSignal(canvas, track) {
  const sweep = sweeps.get(track);
  if (!sweep || sweep.columns.length < 2) return;
  const ratio = devicePixelRatio || 1;
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
  if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
  const paint = canvas.getContext("2d");
  const style = getComputedStyle(canvas);
  paint.setTransform(ratio, 0, 0, ratio, 0, 0);
  paint.clearRect(0, 0, width, height);
  paint.font = `${Math.max(10, height / 22)}px ${style.fontFamily}`;
  const gutter = 40;
  const lane = height / sweep.leads.length;
  const total = Math.round(SECONDS * sweep.rate);
  sweep.leads.forEach((name, lead) => {
    const middle = (lead + 0.5) * lane;
    const { centre, swing } = extent(sweep.columns, lead);
    const scale = (0.46 * lane) / swing;
    paint.fillStyle = style.getPropertyValue("--muted");
    paint.fillText(name, 0, middle + 4, gutter - 6);
    paint.strokeStyle = style.getPropertyValue("--trace");
    paint.lineWidth = 1.2;
    paint.beginPath();
    sweep.columns.forEach((column, index) => {
      const x = gutter + ((total - sweep.columns.length + index) / total) * (width - gutter);
      const y = middle - Math.max(-0.5 * lane, Math.min(0.5 * lane, (column[lead] - centre) * scale));
      if (index === 0) paint.moveTo(x, y);
      else paint.lineTo(x, y);
    });
    paint.stroke();
  });
}
