// Building blocks of the page. Text always enters through text nodes and attributes through
// setAttribute, so nothing that a team sends can become markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function s(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

// A redraw keeps the keyboard focus.
export function put(node, ...children) {
  const focused = node !== document.activeElement && node.contains(document.activeElement) ? document.activeElement : null;
  const nth = focused ? [...node.querySelectorAll("[tabindex]")].indexOf(focused) : -1;
  node.replaceChildren(...children.flat(Infinity).filter((child) => child instanceof Node));
  if (focused) {
    const link = focused.getAttribute("href");
    const again = link ? node.querySelector(`a[href="${CSS.escape(link)}"]`) : node.querySelectorAll("[tabindex]")[nth];
    again?.focus({ preventScroll: true });
  }
  return node;
}

// A canvas that is cleared, as large as it is on the screen. font: its size in pixels, by the canvas's height.
export function prepareCanvas(canvas, font) {
  const ratio = devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
  if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
  const paint = canvas.getContext("2d");
  const style = getComputedStyle(canvas);
  paint.setTransform(ratio, 0, 0, ratio, 0, 0);
  paint.clearRect(0, 0, width, height);
  paint.font = `${font(height)}px ${style.fontFamily}`;
  return { paint, width, height, property: (name) => style.getPropertyValue(name) };
}

// A colour class for each team, the same on all tracks; those that are known first get theirs in the order of
// their names, so that a page that is loaded again shows the same colours.
const COLOURS = 8;
const given = new Map();

export function giveColours(rows) {
  for (const team of [...new Set(rows.map((row) => row.team))].sort()) {
    if (!given.has(team)) given.set(team, given.size % COLOURS);
  }
}

// key: track/team
export function colour(key) {
  const team = key.slice(key.indexOf("/") + 1);
  giveColours([{ team }]);
  return `c${given.get(team)}`;
}

// Ticks of a clock: whole seconds, minutes or hours, at most `count` of them up to `end` seconds.
export function clockTicks(end, count) {
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400];
  const step = steps.find((seconds) => end / seconds <= count) ?? steps.at(-1);
  return Array.from({ length: Math.floor(end / step) + 1 }, (_, i) => i * step);
}

// Ticks at 1, 2 or 5 times a power of ten, about `count` of them between low and high.
export function ticks(low, high, count) {
  const raw = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((m) => m >= raw);
  const result = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9; value += step) {
    result.push(Number(value.toPrecision(12)));
  }
  return result;
}
