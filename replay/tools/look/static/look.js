// The viewer's page: draws the frames that arrive on the WebSocket.
const $ = (id) => document.getElementById(id);
const SCALES = [5, 10, 20, 50, 100, 200, 500, 1000, 5000];
const KEPT_S = 20;
const MOST_TRIGGERS = 100;
const AXIS = 20, NAME_HEIGHT = 9, TRIGGER_LINES = 3;
const view = { leads: [], columns: 60, low: [], high: [], at: 0, paused: false, chosen: 0, faults: [], spectrum: null, triggers: [], failed: false };

for (const uv of SCALES) $("scale").append(new Option(`${uv} µV`, uv, uv === 50, uv === 50));
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function takeSource(source) {
  const { filter, ...facts } = source, same = JSON.stringify(facts) === view.facts;
  for (const key of ["highpass", "lowpass", "notch"]) {
    const select = $(key);
    if (![...select.options].some((option) => Number(option.value) === filter[key])) select.append(new Option(filter[key], filter[key]));
    select.value = [...select.options].find((option) => Number(option.value) === filter[key]).value;
  }
  if (same) return;
  view.facts = JSON.stringify(facts);
  Object.assign(view, { at: 0, chosen: 0, faults: [], spectrum: null, triggers: [] });
  view.columns = source.columns;
  view.leads = source.leads.map((lead) => ({ ...lead, shown: true }));
  view.size = Math.round(KEPT_S * source.columns);
  view.low = source.leads.map(() => new Float32Array(view.size).fill(NaN));
  view.high = source.leads.map(() => new Float32Array(view.size).fill(NaN));
  view.rate = source.rate;
  view.impedance = source.impedance;
  $("title").textContent = `${source.name}: ${source.leads.length} leads at ${source.rate} Hz`;
  document.title = `${source.name} - bci-replay look`;
  $("impedance-title").hidden = !source.impedance.length;
  $("leads").replaceChildren(...view.leads.map(leadBox));
}

function leadBox(lead, number) {
  const label = document.createElement("label");
  const box = Object.assign(document.createElement("input"), { type: "checkbox", checked: true });
  box.addEventListener("change", () => { lead.shown = box.checked; });
  const name = document.createElement("span");
  name.textContent = lead.name;
  name.addEventListener("click", (event) => { event.preventDefault(); view.chosen = number; drawSpectrum(); markLeads(); });
  label.append(box, name);
  lead.box = box;
  lead.label = label;
  return label;
}

const bytesOf = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;

function takeFrame(frame) {
  if (frame.data) {
    const values = new Float32Array(bytesOf(frame.data));
    const leads = view.leads.length, n = frame.n;
    skipTo(frame.first);
    for (let column = 0; column < n; column++) {
      const at = (frame.first + column) % view.size;
      for (let lead = 0; lead < leads; lead++) {
        view.low[lead][at] = values[column * leads + lead];
        view.high[lead][at] = values[(n + column) * leads + lead];
      }
    }
    view.at = frame.first + n;
  }
  for (const trigger of frame.triggers) addTrigger(trigger);
  if (frame.faults) { view.faults = frame.faults; markLeads(); drawHead(); }
  if (frame.spectrum) {
    const tenths = new Int16Array(bytesOf(frame.spectrum.tenths_db)), n = frame.spectrum.hz.length;
    view.spectrum = { hz: frame.spectrum.hz, db: view.leads.map((_, lead) => Array.from(tenths.subarray(lead * n, (lead + 1) * n), (value) => value / 10)) };
    drawSpectrum();
  }
  showStatus(frame);
  if (frame.kiloohm.length) {
    $("impedance").replaceChildren(...frame.kiloohm.map((value, i) => Object.assign(document.createElement("span"), { textContent: `${view.impedance[i]} ${value.toFixed(1)} kΩ` })));
  }
}

// Columns that did not come (a pause, a lost connection) are left empty; the ring holds older ones there.
function skipTo(first) {
  if (first < view.at) { view.at = 0; view.triggers = []; }
  for (let column = Math.max(view.at, first - view.size); column < first; column++) {
    for (const ring of [...view.low, ...view.high]) ring[column % view.size] = NaN;
  }
}

function addTrigger(trigger) {
  view.triggers.push(trigger);
  if (view.triggers.length > MOST_TRIGGERS) view.triggers.shift();
  const line = document.createElement("li");
  line.textContent = `${trigger.s.toFixed(3)} s: ${trigger.code}${trigger.text ? ` ${trigger.text}` : ""}`;
  $("triggers").prepend(line);
  while ($("triggers").children.length > MOST_TRIGGERS) $("triggers").lastChild.remove();
}

function showStatus(frame) {
  const parts = [frame.state + (frame.detail ? ` (${frame.detail})` : ""), `${frame.samples} samples`];
  if (frame.lag_ms !== null) parts.push(`lag ${frame.lag_ms.toFixed(0)} ms`);
  parts.push(frame.gaps ? `${frame.lost} lost in ${frame.gaps} gap${frame.gaps > 1 ? "s" : ""}` : "no gaps");
  $("status").textContent = parts.join(", ");
  $("status").classList.toggle("bad", Boolean(frame.gaps) || frame.state === "failed" || frame.state === "stalled");
}

const describe = (fault) => [fault.invalid && "no numbers", fault.flat && "flat", fault.saturated && "saturated", fault.line && `power line ${fault.line_uv.toFixed(0)} µV`, fault.bridged.length && `bridge to ${fault.bridged.join(" ")}`].filter(Boolean);

function markLeads() {
  const bad = [];
  view.leads.forEach((lead, i) => {
    const found = view.faults[i] ? describe(view.faults[i]) : [];
    lead.bad = found.length > 0;
    lead.label.classList.toggle("bad", lead.bad);
    lead.label.classList.toggle("chosen", i === view.chosen);
    if (lead.bad) bad.push(`${lead.name}: ${found.join(", ")}`);
    lead.label.title = `${lead.name} (${lead.kind}): ${found.join(", ") || "no fault"}${view.faults[i] ? `, ${view.faults[i].rms_uv.toFixed(1)} µV rms` : ""}`;
  });
  const lines = view.faults.length && !bad.length ? ["none"] : bad;
  $("faults").replaceChildren(...lines.map((text) => Object.assign(document.createElement("li"), { textContent: text })));
}

// An empty canvas with as many pixels as the screen has, drawn on in CSS pixels.
function clean(canvas) {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) { canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio); }
  const g = canvas.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, width, height);
  return g;
}

function drawTraces() {
  const canvas = $("traces");
  const width = canvas.clientWidth, height = canvas.clientHeight - AXIS;
  const g = clean(canvas);
  const shown = view.leads.map((lead, i) => i).filter((i) => view.leads[i].shown);
  if (!shown.length || !view.at) return;
  const left = 64, row = height / shown.length, scale = row / Number($("scale").value) / 2;
  const n = Math.min(view.size, Math.round(Number($("seconds").value) * view.columns));
  const x = (column) => left + ((column - (view.at - n)) / n) * (width - left);
  g.font = `${Math.max(8, Math.min(12, row))}px system-ui`;
  g.textBaseline = "middle";
  for (const trigger of view.triggers) {
    if (trigger.column < view.at - n) continue;
    g.strokeStyle = style("--soft");
    g.beginPath(); g.moveTo(x(trigger.column), 0); g.lineTo(x(trigger.column), height); g.stroke();
  }
  const named = Math.ceil(NAME_HEIGHT / row); // with little room every second or third lead has its name
  shown.forEach((lead, k) => {
    const middle = (k + 0.5) * row;
    g.fillStyle = view.leads[lead].bad ? style("--bad") : style("--fg");
    if (k % named === 0) g.fillText(view.leads[lead].name, 4, middle, left - 8);
    g.strokeStyle = view.leads[lead].bad ? style("--bad") : style("--trace");
    g.beginPath();
    let last = NaN;
    for (let column = Math.max(0, view.at - n); column < view.at; column++) {
      const at = column % view.size, low = view.low[lead][at], high = view.high[lead][at];
      if (Number.isNaN(low)) { last = NaN; continue; }
      // The nearer end first, and half a column between the two: else a slope is drawn as a saw or as steps.
      const [near, far] = Math.abs(high - last) < Math.abs(low - last) ? [high, low] : [low, high];
      if (Number.isNaN(last)) g.moveTo(x(column), middle - near * scale); else g.lineTo(x(column), middle - near * scale);
      g.lineTo(x(column + 0.5), middle - far * scale);
      last = far;
    }
    g.stroke();
  });
  g.fillStyle = style("--soft"); g.strokeStyle = style("--soft"); g.font = "11px system-ui";
  const ends = []; // of the last text in each line: a text that would cover one stands a line lower
  for (const trigger of [...view.triggers].sort((a, b) => a.column - b.column)) {
    if (trigger.column < view.at - n) continue;
    const text = trigger.text || String(trigger.code), place = x(trigger.column) + 2, long = g.measureText(text).width + 4;
    const line = Math.min(TRIGGER_LINES - 1, [...ends, -1].findIndex((end) => end < place));
    ends[line] = place + long;
    g.fillStyle = style("--bg"); g.fillRect(place, 1 + 14 * line, long - 2, 14);
    g.fillStyle = style("--fg"); g.fillText(text, place + 1, 9 + 14 * line);
  }
  g.fillStyle = style("--soft"); g.textAlign = "center";
  const step = n / view.columns > 10 ? 2 : 1;
  for (let s = Math.ceil(Math.max(0, view.at - n) / view.columns / step) * step; s * view.columns < view.at; s += step) {
    const place = x(s * view.columns);
    g.beginPath(); g.moveTo(place, height); g.lineTo(place, height + 4); g.stroke();
    if (place > left + 12 && place < width - 12) g.fillText(`${s} s`, place, height + 11);
  }
  g.textAlign = "start";
  const bar = Number($("scale").value) * scale;
  g.strokeStyle = style("--fg");
  g.beginPath(); g.moveTo(left - 6, height + 16 - Math.min(bar, height)); g.lineTo(left - 6, height + 16); g.stroke();
  g.fillText(`${$("scale").value} µV`, 4, height + 11);
}

function drawSpectrum() {
  const canvas = $("spectrum"), g = clean(canvas), found = view.spectrum;
  if (!found || !view.leads[view.chosen]) return;
  $("spectrum-of").textContent = `${view.leads[view.chosen].name} (strong), mean; dB (µV²/Hz)`;
  const mean = found.hz.map((_, i) => found.db.reduce((sum, lead) => sum + lead[i], 0) / found.db.length);
  const all = [...mean, ...found.db[view.chosen]], least = Math.min(...all), most = Math.max(...all, least + 1);
  const left = 28, width = canvas.clientWidth - left - 10, height = canvas.clientHeight - 16, last = found.hz.at(-1);
  const x = (hz) => left + (hz / last) * width, y = (db) => height - ((db - least) / (most - least)) * (height - 8);
  g.font = "10px system-ui"; g.fillStyle = style("--soft"); g.strokeStyle = style("--line"); g.textAlign = "center";
  for (let hz = 0; hz <= last; hz += last > 50 ? 20 : 10) {
    g.beginPath(); g.moveTo(x(hz), 0); g.lineTo(x(hz), height); g.stroke();
    g.fillText(hz ? hz : "0 Hz", x(hz), height + 12);
  }
  g.textAlign = "right";
  for (let db = Math.ceil(least / 20) * 20; db <= most; db += 20) {
    g.beginPath(); g.moveTo(left, y(db)); g.lineTo(left + width, y(db)); g.stroke();
    g.fillText(db, left - 4, Math.max(9, y(db) + 3));
  }
  const draw = (values, colour, thick) => {
    g.strokeStyle = colour; g.lineWidth = thick; g.beginPath();
    values.forEach((db, i) => g.lineTo(x(found.hz[i]), y(db)));
    g.stroke();
  };
  draw(mean, style("--soft"), 1);
  draw(found.db[view.chosen], style("--trace"), 1.5);
}

function drawHead() {
  const canvas = $("head"), g = clean(canvas);
  const cx = canvas.clientWidth / 2, cy = canvas.clientHeight / 2 + 4, radius = canvas.clientHeight / 2 - 42;
  g.strokeStyle = style("--soft");
  g.beginPath(); g.arc(cx, cy, radius, 0, 7); g.stroke();
  g.beginPath(); g.moveTo(cx - 8, cy - radius); g.lineTo(cx, cy - radius - 12); g.lineTo(cx + 8, cy - radius); g.stroke();
  const most = Math.max(1, ...view.faults.map((fault) => fault.line_uv));
  $("line-range").textContent = `blue: 0, red: ${most.toFixed(1)} µV`;
  view.leads.forEach((lead, i) => {
    if (!lead.place || !view.faults[i]) return;
    const share = view.faults[i].line_uv / most;
    g.fillStyle = `hsl(${220 - 220 * share} 80% 50%)`;
    g.beginPath(); g.arc(cx + lead.place[0] * radius, cy - lead.place[1] * radius, 7, 0, 7); g.fill();
    g.fillStyle = style("--fg"); g.font = "9px system-ui"; g.textAlign = "center";
    g.fillText(lead.name, cx + lead.place[0] * radius, cy - lead.place[1] * radius - 9); g.textAlign = "start";
  });
}

function connect() {
  const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/frames`);
  socket.addEventListener("message", (event) => {
    const message = JSON.parse(event.data);
    if (message.kind === "source") takeSource(message);
    else if (!view.paused && view.leads.length) takeFrame(message);
  });
  socket.addEventListener("close", () => { $("status").textContent = "bci-replay look has ended; trying again"; $("status").classList.add("bad"); setTimeout(connect, 1000); });
  for (const key of ["highpass", "lowpass", "notch"]) {
    $(key).onchange = () => socket.send(JSON.stringify({ filter: { highpass: Number($("highpass").value), lowpass: Number($("lowpass").value), notch: Number($("notch").value) } }));
  }
}

$("pause").addEventListener("click", () => { view.paused = !view.paused; $("pause").textContent = view.paused ? "go on" : "pause"; });
const show = (rule) => view.leads.forEach((lead) => { lead.shown = rule(lead); lead.box.checked = lead.shown; });
$("all").addEventListener("click", () => show(() => true));
$("none").addEventListener("click", () => show(() => false));
$("good").addEventListener("click", () => show((lead) => !lead.bad));
setInterval(() => { if (!view.paused) drawTraces(); }, 100);
window.addEventListener("resize", () => { drawTraces(); drawSpectrum(); drawHead(); });
connect();
