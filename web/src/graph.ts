// The graph of a check, made complete: full names of elements, and their words with their own names.
import type { Graph, GraphElement } from "./api";
import { named, split } from "./words";

/** Gives each element its words with its name, and its full name: a second `netem` is `netem-2`. */
export function complete(graph: Graph): Graph {
  const lane = (link: string, direction: "up" | "down", elements: GraphElement[]) => {
    const seen = new Map<string, number>();
    return elements.map((element): GraphElement => {
      const written = named(element.text);
      const own = element.name ?? written.name;
      const text = own && !written.name ? `${own}: ${element.text}` : element.text;
      const first = own || (split(written.words)[0] ?? "");
      const count = (seen.get(first) ?? 0) + 1;
      seen.set(first, count);
      return { ...element, text, entity: element.entity ?? `link/${link}/${direction}/${count > 1 ? `${first}-${count}` : first}` };
    });
  };
  // Edits call a table without a name by its number among its kind.
  const counts = new Map<string, number>();
  const others = graph.others.map((other) => {
    const count = counts.get(other.kind) ?? 0;
    counts.set(other.kind, count + 1);
    return { ...other, name: other.name || `#${count}` };
  });
  return { ...graph, others, links: graph.links.map((link) => ({ ...link, up: lane(link.name, "up", link.up), down: lane(link.name, "down", link.down) })) };
}
