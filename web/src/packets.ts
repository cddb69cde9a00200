// Packets of a run: those that passed a place lately, and the way of one.
import { api, reason, type Packet } from "./api";
import { h, put } from "./dom";

/** How long before the run's time packets are listed, s, and how many at most. */
const WITHIN = 0.05;
const MOST = 200;

export class Packets {
  readonly host = h("div", { class: "packets" });
  private readonly place = h("select", { "aria-label": "Place", onchange: () => void this.load() });
  private readonly at = h("input", { type: "number", min: "0", step: "any", class: "short", "aria-label": "Up to which time, in seconds" });
  private readonly list = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Packets" });
  private readonly steps = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "The way of one packet" });
  private job: string | null = null;
  private places: string[] = [];

  constructor(private readonly now: () => number, private readonly follow: (place: string) => void) {
    put(this.host,
      h("p", { class: "row" }, h("span", { class: "faint" }, "at"), this.place, h("span", { class: "faint" }, "up to"), this.at, h("span", { class: "faint" }, "s"),
        h("button", { type: "button", onclick: () => void this.load() }, "List"),
        h("button", { type: "button", onclick: () => { this.at.value = String(Number(this.now().toFixed(3))); void this.load(); } }, "Latest")),
      h("div", { class: "two" }, this.list, this.steps));
    this.say("Packets are listed while a run goes or is paused, and after it.");
  }

  private say(text: string): void { put(this.list, h("p", { class: "faint" }, text)); put(this.steps); }

  setJob(job: string | null, places: string[]): void {
    this.job = job;
    if (places.join() !== this.places.join()) {
      const kept = this.place.value;
      this.places = places;
      put(this.place, ...places.map((place) => h("option", { value: place, selected: place === kept }, place)));
    }
  }

  async show(place: string): Promise<void> {
    this.place.value = place;
    this.at.value = String(Number(this.now().toFixed(3)));
    await this.load();
  }

  private async load(): Promise<void> {
    if (!this.job) { this.say("Nothing has run yet."); return; }
    if (!this.at.value) this.at.value = String(Number(this.now().toFixed(3)));
    try {
      const { packets } = await api.packets(this.job, Math.max(0, Number(this.at.value) - WITHIN), WITHIN, this.place.value);
      if (!packets.length) { this.say(`No packet was at ${this.place.value} in the ${WITHIN * 1000} ms before.`); return; }
      const rows = packets.slice(-MOST).reverse();
      put(this.list, h("table", {}, h("thead", {}, h("tr", {}, ...["t (s)", "packet", "flow", "what", "bytes", "ecn"].map((title) => h("th", {}, title)))),
        h("tbody", {}, ...rows.map((packet) => h("tr", {},
          h("td", {}, packet.t_s.toFixed(6)), h("td", {}, this.button(packet)), h("td", { class: "left" }, packet.flow ?? ""),
          h("td", { class: "left" }, packet.what), h("td", {}, String(packet.bytes ?? "")), h("td", { class: "left" }, packet.ecn ?? ""))))));
      put(this.steps, h("p", { class: "faint" }, "Choose a packet to see its way."));
    } catch (error) { this.say(reason(error)); }
  }

  private button(packet: Packet): HTMLElement {
    return h("button", { type: "button", class: "word", "aria-label": `Follow packet ${packet.id}`, onclick: () => void this.way(packet) }, String(packet.id));
  }

  private async way(packet: Packet): Promise<void> {
    if (!this.job) return;
    try {
      const { steps } = await api.packet(this.job, packet.id);
      const first = steps[0]?.t_s ?? 0;
      put(this.steps, h("h2", {}, `Packet ${packet.id}`, packet.flow ? h("small", {}, ` ${packet.flow}`) : null),
        h("table", {}, h("thead", {}, h("tr", {}, ...["t (s)", "after (ms)", "place", "what"].map((title) => h("th", {}, title)))),
          h("tbody", {}, ...steps.map((step) => h("tr", {}, h("td", {}, step.t_s.toFixed(6)), h("td", {}, ((step.t_s - first) * 1000).toFixed(3)),
            h("td", { class: "left" }, h("button", { type: "button", class: "word", onclick: () => this.follow(step.place) }, step.place)), h("td", { class: "left" }, step.detail ? `${step.what}, ${step.detail}` : step.what))))));
    } catch (error) { put(this.steps, h("p", { class: "no-text" }, reason(error))); }
  }
}
