// Figures as people read them: a dash where there is none.

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const DASH = "–";

export const whole = (value) => (typeof value === "number" ? WHOLE.format(value) : DASH);

export const count = (number, noun) => `${whole(number)} ${noun}${number === 1 ? "" : "s"}`;

export const short = (value) =>
  (typeof value !== "number" ? DASH : Math.abs(value) < 10000 ? WHOLE.format(value)
    : SHORT.format(value));

// A figure that leaves something out, as a sum of lag or a wait, has ≥ before it; a dash where
// nothing is known.
export const atLeast = (show, value, leavesOut) =>
  (typeof value === "number" && leavesOut ? `≥ ${show(value)}` : show(value));

export const figure = (value, digits = 2) =>
  (typeof value === "number" ? String(Number(value.toFixed(digits))) : DASH);

export const percent = (value) =>
  (typeof value === "number" ? `${Number((value * 100).toFixed(1))} %` : DASH);

// Seconds up to two minutes, then minutes, hours and days with two parts.
export function duration(value) {
  if (typeof value !== "number") return DASH;
  if (value < 9.95) return `${value.toFixed(1)} s`;
  if (value < 120) return `${Math.round(value)} s`;
  const seconds = Math.round(value);
  const [days, hours] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24];
  const minutes = Math.floor(seconds / 60) % 60;
  if (days) return `${WHOLE.format(days)} d ${hours} h`;
  if (hours) return `${hours} h ${minutes} min`;
  return `${minutes} min ${seconds % 60} s`;
}

export const bytes = (value) => {
  if (typeof value !== "number") return DASH;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let index = 0;
  let size = value;
  for (; size >= 1024 && index < units.length - 1; index += 1) size /= 1024;
  return `${size < 10 && index ? size.toFixed(1) : Math.round(size)} ${units[index]}`;
};

export const clock = (at) =>
  (at ? new Date(at).toLocaleTimeString("en-GB", { hour12: false }) : DASH);

// Both in the zone of the reader's machine.
export function dateAndTime(at) {
  if (!at) return DASH;
  const day = new Date(at);
  const [month, number] = [day.getMonth() + 1, day.getDate()].map((part) => String(part).padStart(2, "0"));
  return `${day.getFullYear()}-${month}-${number} ${clock(at)}`;
}

export const ago = (at, now = Date.now()) =>
  (at ? `${duration(Math.max((now - at) / 1000, 0))} ago` : DASH);
