// The viewer's page: draws the frames that arrive on the WebSocket.
const $ = (id) => document.getElementById(id);
const SCALES = [5, 10, 20, 50, 100, 200, 500, 1000, 5000];
const KEPT_S = 20;
const MOST_TRIGGERS = 100;
const view = { leads: [], columns: 60, low: [], high: [], at: 0, paused: false, chosen: 0, faults: [], spectrum: null, triggers: [], failed: false };

for (const uv of SCALES) $("scale").append(new Option(`${uv} µV`, uv, uv === 50, uv === 50));
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function takeSource(source) {
  const same = view.leads.length === source.leads.length && view.leads.every((lead, i) => lead.name === source.leads[i].name);
  for (const key of ["highpass", "lowpass", "notch"]) {
    const select = $(key);
    if (![...select.options].some((option) => Number(option.value) === source.filter[key])) select.append(new Option(source.filter[key], source.filter[key]));
    select.value = [...select.options].find((option) => Number(option.value) === source.filter[key]).value;
  }
  if (same) return;
  view.columns = source.columns;
  view.leads = source.leads.map((lead) => ({ ...lead, shown: true }));
  view.size = Math.round(KEPT_S * source.columns);
  view.low = source.leads.map(() => new Float32Array(view.size).fill(NaN));
  view.high = source.leads.map(() => new Float32Array(view.size).fill(NaN));
  view.rate = source.rate;
  view.impedance = source.impedance;
  $("title").textContent = `${source.leads.length} leads at ${source.rate} Hz`;
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
  parts.push(frame.gaps ? `${frame.lost} lost in ${frame.gaps} gaps` : "no gaps");
  $("status").textContent = parts.join(", ");
  $("status").classList.toggle("bad", Boolean(frame.gaps) || frame.state === "failed" || frame.state === "stalled");
}

const describe = (fault) => [fault.invalid && "no numbers", fault.flat && "flat", fault.saturated && "saturated", fault.line && `power line ${fault.line_uv.toFixed(0)} µV`, fault.bridged.length && `bridge to ${fault.bridged.join(" ")}`].filter(Boolean);

function markLeads() {
  view.leads.forEach((lead, i) => {
    const found = view.faults[i] ? describe(view.faults[i]) : [];
    lead.bad = found.length > 0;
    lead.label.classList.toggle("bad", lead.bad);
    lead.label.classList.toggle("chosen", i === view.chosen);
    lead.label.title = `${lead.name} (${lead.kind}): ${found.join(", ") || "no fault"}${view.faults[i] ? `, ${view.faults[i].rms_uv.toFixed(1)} µV rms` : ""}`;
  });
}

function drawTraces() {
  const canvas = $("traces"), ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) { canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio); }
  const g = canvas.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, width, height);
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
    g.fillStyle = style("--soft"); g.fillText(trigger.text || trigger.code, x(trigger.column) + 2, 8);
  }
  shown.forEach((lead, k) => {
    const middle = (k + 0.5) * row;
    g.fillStyle = view.leads[lead].bad ? style("--bad") : style("--fg");
    g.fillText(view.leads[lead].name, 4, middle, left - 8);
    g.strokeStyle = view.leads[lead].bad ? style("--bad") : style("--trace");
    g.beginPath();
    for (let column = Math.max(0, view.at - n); column < view.at; column++) {
      const at = column % view.size, low = view.low[lead][at], high = view.high[lead][at];
      if (Number.isNaN(low)) continue;
      g.lineTo(x(column), middle - low * scale); g.lineTo(x(column), middle - high * scale);
    }
    g.stroke();
  });
}

function drawSpectrum() {
  const canvas = $("spectrum"), g = canvas.getContext("2d"), found = view.spectrum;
  g.clearRect(0, 0, canvas.width, canvas.height);
  if (!found || !view.leads[view.chosen]) return;
  $("spectrum-of").textContent = `${view.leads[view.chosen].name} (dark) and mean, 0 to ${found.hz.at(-1)} Hz`;
  const mean = found.hz.map((_, i) => found.db.reduce((sum, lead) => sum + lead[i], 0) / found.db.length);
  const all = [...mean, ...found.db[view.chosen]], least = Math.min(...all), most = Math.max(...all, least + 1);
  const draw = (db, colour) => {
    g.strokeStyle = colour; g.beginPath();
    db.forEach((value, i) => g.lineTo((i / (db.length - 1)) * canvas.width, canvas.height - ((value - least) / (most - least)) * (canvas.height - 4) - 2));
    g.stroke();
  };
  draw(mean, style("--soft"));
  draw(found.db[view.chosen], style("--trace"));
}

function drawHead() {
  const canvas = $("head"), g = canvas.getContext("2d");
  const cx = canvas.width / 2, cy = canvas.height / 2 + 6, radius = canvas.height / 2 - 34;
  g.clearRect(0, 0, canvas.width, canvas.height);
  g.strokeStyle = style("--soft");
  g.beginPath(); g.arc(cx, cy, radius, 0, 7); g.stroke();
  g.beginPath(); g.moveTo(cx - 8, cy - radius); g.lineTo(cx, cy - radius - 12); g.lineTo(cx + 8, cy - radius); g.stroke();
  const most = Math.max(1, ...view.faults.map((fault) => fault.line_uv));
  $("line-range").textContent = `0 to ${most.toFixed(1)} µV`;
  view.leads.forEach((lead, i) => {
    if (!lead.place || !view.faults[i]) return;
    const share = view.faults[i].line_uv / most;
    g.fillStyle = `hsl(${220 - 220 * share} 80% 50%)`;
    g.beginPath(); g.arc(cx + lead.place[0] * radius, cy - lead.place[1] * radius, 7, 0, 7); g.fill();
    g.fillStyle = style("--fg"); g.font = "8px system-ui"; g.textAlign = "center";
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
window.addEventListener("resize", drawTraces);
connect();
