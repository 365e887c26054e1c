// Curves as numbers: decoded from 16 bits, aligned to one axis, with the chosen band.

const UNKNOWN = 65535;
let decoded = new Map(); // measure -> its curves

function measureNow() {
  return data.curves.find((each) => each.id === chosen.measure) ?? data.curves[0];
}

function curvesOf(measure) {
  if (!decoded.has(measure.id)) decoded.set(measure.id, measure.cells.map((cell) => decode(measure, cell)));
  return decoded.get(measure.id);
}

function decode(measure, cell) {
  const bytes = Uint8Array.from(atob(cell.data), (character) => character.charCodeAt(0));
  const view = new DataView(bytes.buffer), rounds = measure.grids[cell.grid], length = rounds.length;
  const parts = view.byteLength / 2 / length; // mean and sd of each window, or means only
  const part = (number, low, high) => rounds.map((_, i) => {
    const code = view.getUint16(2 * (number * length + i), true);
    return code === UNKNOWN ? null : low + (high - low) * code / (UNKNOWN - 1);
  });
  const spread = parts > measure.windows.length;
  const levels = measure.windows.map((_, i) => ({
    mean: part(spread ? 2 * i : i, measure.low, measure.high),
    sd: spread ? part(2 * i + 1, 0, measure.spread) : null,
  }));
  const spent = Array.isArray(cell.spent) ? cell.spent : rounds.map((round) => round * cell.spent);
  return { method: cell.at[0], condition: cell.at[1], rounds, spent, n: cell.n, half: cell.half, levels };
}

/** The number of the window nearest to the chosen one. (Offline curves have only one.) */
function levelOf(measure) {
  const sizes = measure.windows.map((size) => Math.abs(size - chosen.window));
  return sizes.indexOf(Math.min(...sizes));
}

/** One curve as it is drawn: x, y and half the width of the band, without points that the axis cannot show. */
function drawn(curve, level) {
  const { mean, sd } = curve.levels[level];
  const factors = { sd: 1, ci: curve.half, none: null }[chosen.band];
  const factor = (i) => (Array.isArray(factors) ? factors[i] : factors);
  const xs = chosen.by === "rounds" ? curve.rounds : curve.spent;
  const kept = xs.map((_, i) => i).filter((i) => mean[i] !== null && (chosen.scale === "linear" || xs[i] > 0));
  const half = kept.map((i) => (sd && factor(i) && sd[i] !== null ? factor(i) * sd[i] : null)); // a single run has no band
  return {
    curve,
    banded: half.some((each) => each !== null),
    x: kept.map((i) => xs[i]),
    round: kept.map((i) => curve.rounds[i]),
    y: kept.map((i) => mean[i]),
    half,
  };
}

/** All curves over one axis, as uPlot needs them. Lines between points stay straight. */
function aligned(lines) {
  const xs = [...new Set(lines.flatMap((line) => line.x))].sort((a, b) => a - b);
  return [xs, ...lines.map((line) => (line.x.length === xs.length ? line.y : interpolated(line, xs)))];
}

function interpolated(line, xs) {
  let i = 0;
  return xs.map((x) => {
    if (!line.x.length || x < line.x[0] || x > line.x.at(-1)) return null;
    while (i < line.x.length - 2 && line.x[i + 1] < x) i += 1;
    if (line.x.length === 1) return line.y[0];
    const part = (x - line.x[i]) / (line.x[i + 1] - line.x[i]);
    return line.y[i] + Math.min(1, Math.max(0, part)) * (line.y[i + 1] - line.y[i]);
  });
}

/** The number of the line's own point that is nearest to x. */
function nearest(line, x) {
  let low = 0, high = line.x.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (line.x[middle] <= x) low = middle; else high = middle;
  }
  return high >= 0 && Math.abs(line.x[high] - x) < Math.abs(line.x[low] - x) ? high : low;
}

const START = 0.1; // the part of the axis whose low values a close-up may cut off

/** One range for all charts, so that conditions can be compared by eye. A close-up leaves out the steep start. */
function rangeOf(panels) {
  let low = Infinity, high = -Infinity;
  for (const line of panels.flatMap((panel) => panel.lines)) {
    const from = chosen.values === "close" ? START * line.x.at(-1) : -Infinity;
    line.y.forEach((y, i) => {
      if (line.x[i] >= from) low = Math.min(low, y - (line.half[i] ?? 0));
      high = Math.max(high, y + (line.half[i] ?? 0));
    });
  }
  if (low > high) return [0, 1];
  const margin = 0.04 * (high - low) || 0.05;
  return [low - margin, high + margin];
}
