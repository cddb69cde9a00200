// Samples of a run, in a bounded room: when it is full, every second sample is dropped, so that the whole run
// stays in view at half the resolution.

/** Samples kept of each series; at 20 a second two minutes at full resolution. */
export const ROOM = 2400;

/** Metrics that count what happened since the sample before; they are shown added up. */
const COUNTERS = /[ ._](marks|drops|retransmissions|lost)$/;

export class Series {
  times: number[] = [];
  readonly columns = new Map<string, (number | null)[]>();
  private readonly sums = new Map<string, number>();
  /** Every so manieth sample is kept. */
  private stride = 1;
  private seen = 0;

  constructor(private readonly room = ROOM) {}

  /** Adds the values of one time by their names, `flow/prague rtt_ms`. */
  add(time: number, values: Iterable<[string, number]>): void {
    const last = this.times[this.times.length - 1];
    if (last !== undefined && time <= last) return;
    const summed: [string, number][] = [];
    for (const [name, value] of values) {
      if (!COUNTERS.test(name)) { summed.push([name, value]); continue; }
      const sum = (this.sums.get(name) ?? 0) + value;
      this.sums.set(name, sum);
      summed.push([name, sum]);
    }
    this.seen += 1;
    if ((this.seen - 1) % this.stride !== 0) return;
    if (this.times.length >= this.room) this.halve();
    const place = this.times.push(time) - 1;
    for (const [name, value] of summed) {
      let column = this.columns.get(name);
      if (!column) this.columns.set(name, column = new Array<number | null>(place).fill(null));
      column[place] = value;
    }
    for (const column of this.columns.values()) if (column.length <= place) column.push(null);
  }

  private halve(): void {
    const half = <T>(list: T[]) => list.filter((_, place) => place % 2 === 0);
    this.times = half(this.times);
    for (const [name, column] of this.columns) this.columns.set(name, half(column));
    this.stride *= 2;
  }
}

/** Reads `t_s,entity,metric,value`, the lines of a series file, thinned to the room of a page. */
export function readTidy(text: string, room = ROOM): Series {
  const rows = new Map<number, [string, number][]>();
  let start = text.indexOf("\n") + 1;
  while (start < text.length) {
    let end = text.indexOf("\n", start);
    if (end < 0) end = text.length;
    const [t, entity, metric, value] = text.slice(start, end).split(",");
    start = end + 1;
    const time = Number(t);
    const number = Number(value);
    if (entity === undefined || metric === undefined || !Number.isFinite(time) || !Number.isFinite(number) || value === "") continue;
    const row = rows.get(time);
    if (row) row.push([`${entity} ${metric}`, number]);
    else rows.set(time, [[`${entity} ${metric}`, number]]);
  }
  const series = new Series(room);
  for (const time of [...rows.keys()].sort((a, b) => a - b)) series.add(time, rows.get(time) ?? []);
  return series;
}
