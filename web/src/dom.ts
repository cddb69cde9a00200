// Elements made by script. Nothing here takes HTML or a style attribute: the page's policy forbids both.

type Child = Node | string | null | undefined | false;
type Props = Record<string, unknown>;

function fill(node: Element, props: Props, children: Child[]): void {
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on") && typeof value === "function") {
      node.addEventListener(key.slice(2), value as EventListener);
    } else if (key === "value" || key === "checked" || key === "disabled" || key === "selected") {
      (node as unknown as Props)[key] = value;
    } else {
      node.setAttribute(key, value === true ? "" : String(value));
    }
  }
  for (const child of children) if (child) node.append(child);
}

/** An HTML element. `onclick` and the like are listeners, everything else is an attribute. */
export function h<K extends keyof HTMLElementTagNameMap>(tag: K, props: Props = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  fill(node, props, children);
  return node;
}

/** An SVG element. */
export function s<K extends keyof SVGElementTagNameMap>(tag: K, props: Props = {}, ...children: Child[]): SVGElementTagNameMap[K] {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  fill(node, props, children);
  return node;
}

/** Replaces all children of a node. */
export function put(node: Element, ...children: Child[]): void {
  node.replaceChildren(...children.filter((child): child is Node | string => Boolean(child)));
}

/** Sets an attribute only where it differs: writes cost layout, reads do not. */
export function set(node: Element, name: string, value: string): void {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

/** Sets a text only where it differs. */
export function say(node: Node, text: string): void {
  if (node.textContent !== text) node.textContent = text;
}

/** Calls `run` once, `wait` milliseconds after the last call. */
export function debounced(wait: number, run: () => void): { (): void; now(): void; cancel(): void } {
  let timer = 0;
  const call = () => {
    clearTimeout(timer);
    timer = window.setTimeout(() => { timer = 0; run(); }, wait);
  };
  call.now = () => { if (timer) { clearTimeout(timer); timer = 0; run(); } };
  call.cancel = () => { clearTimeout(timer); timer = 0; };
  return call;
}

/** A figure for people: three significant digits, no exponent. */
export function figure(value: number): string {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 100 || Number.isInteger(value)) return Math.round(value).toLocaleString("en");
  return size >= 10 ? value.toFixed(1) : size >= 0.995 ? value.toFixed(2) : value.toPrecision(2);
}
