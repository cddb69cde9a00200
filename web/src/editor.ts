// The text of the document. It stands in a shadow root because CodeMirror then adds its styles by adoptedStyleSheets,
// which the page's policy allows; elsewhere it would add a <style>, which the policy forbids.
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, type CompletionContext } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab, invertedEffects, redo, redoDepth, undo, undoDepth } from "@codemirror/commands";
import { bracketMatching, HighlightStyle, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { toml } from "@codemirror/legacy-modes/mode/toml";
import { lintGutter, setDiagnostics, type Diagnostic } from "@codemirror/lint";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { EditorState, StateEffect } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { api, type Finding, type Places } from "./api";
import { h } from "./dom";
import { difference } from "./words";

/** A move in the drawing: what the positions of the moved are, and what they were. It shares the text's history. */
const moved = StateEffect.define<{ to: Places; from: Places }>();

const colours = HighlightStyle.define([
  { tag: tags.comment, color: "var(--faint)" },
  { tag: tags.string, color: "var(--string)" },
  { tag: [tags.number, tags.atom, tags.bool], color: "var(--number)" },
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--ink)" },
  { tag: [tags.bracket, tags.operator], color: "var(--faint)" },
]);

const looks = EditorView.theme({
  "&": { height: "100%", color: "var(--ink)", backgroundColor: "var(--ground)", fontSize: "12.5px" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5" },
  ".cm-content": { caretColor: "var(--ink)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": { backgroundColor: "var(--ground)", color: "var(--faint)", borderRight: "1px solid var(--grid)" },
  ".cm-activeLine": { backgroundColor: "var(--active)" },
  ".cm-activeLineGutter": { backgroundColor: "var(--active)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--selection)" },
  ".cm-selectionMatch": { backgroundColor: "var(--match)" },
  ".cm-searchMatch": { backgroundColor: "var(--match)" },
  ".cm-panels": { backgroundColor: "var(--raised)", color: "var(--ink)" },
  ".cm-panels.cm-panels-bottom": { borderTop: "1px solid var(--line)" },
  ".cm-textfield, .cm-button": { color: "var(--ink)", backgroundColor: "var(--ground)", backgroundImage: "none", border: "1px solid var(--line)", borderRadius: "3px" },
  ".cm-tooltip": { backgroundColor: "var(--raised)", color: "var(--ink)", border: "1px solid var(--line)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--ground)" },
  ".cm-completionDetail": { color: "var(--faint)", fontStyle: "normal" },
  ".cm-diagnostic-error": { borderLeftColor: "var(--no)" },
  ".cm-diagnostic-info": { borderLeftColor: "var(--accent)" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--no)", textUnderlineOffset: "3px" },
  ".cm-lintRange-info": { backgroundImage: "none", textDecoration: "underline dotted var(--accent)", textUnderlineOffset: "3px" },
  ".cm-lint-marker-error": { content: "none", width: ".65em", height: ".65em", borderRadius: "50%", backgroundColor: "var(--no)" },
  ".cm-lint-marker-info": { content: "none", width: ".65em", height: ".65em", borderRadius: "2px", backgroundColor: "var(--accent)" },
});

export interface EditorEvents {
  changed: () => void;
  moved: (places: Places) => void;
}

export class Editor {
  readonly host: HTMLElement;
  private readonly view: EditorView;

  constructor(text: string, private readonly document: string, private readonly events: EditorEvents) {
    this.host = h("div", { class: "editor" });
    const root = this.host.attachShadow({ mode: "open" });
    this.view = new EditorView({ root, parent: root, state: this.fresh(text) });
  }

  private fresh(text: string): EditorState {
    return EditorState.create({
      doc: text,
      extensions: [
        lineNumbers(), lintGutter(), history({ newGroupDelay: 400 }), drawSelection(), highlightActiveLine(), highlightActiveLineGutter(),
        bracketMatching(), closeBrackets(), highlightSelectionMatches(), search(), StreamLanguage.define(toml),
        syntaxHighlighting(colours), looks, EditorView.lineWrapping,
        // What can be edited comes in the order of Tab without the number; that what scrolls has it, tools see by it alone.
        EditorView.contentAttributes.of({ "aria-label": "Text of the document", tabindex: "0" }),
        autocompletion({ override: [(context: CompletionContext) => complete(context, this.document)], icons: false }),
        invertedEffects.of((transaction) => transaction.effects.filter((effect) => effect.is(moved))
          .map((effect) => moved.of({ to: effect.value.from, from: effect.value.to }))),
        // Escape, then Tab leaves the editor; CodeMirror itself offers this.
        keymap.of([...closeBracketsKeymap, ...defaultKeymap.filter(({ key }) => key !== "Mod-Enter"), ...searchKeymap, ...historyKeymap, ...completionKeymap, indentWithTab]),
        EditorView.updateListener.of((update) => {
          for (const transaction of update.transactions) {
            for (const effect of transaction.effects) if (effect.is(moved)) this.events.moved(effect.value.to);
          }
          if (update.docChanged) this.events.changed();
        }),
      ],
    });
  }

  get text(): string { return this.view.state.doc.toString(); }
  get canUndo(): boolean { return undoDepth(this.view.state) > 0; }
  get canRedo(): boolean { return redoDepth(this.view.state) > 0; }
  undo(): void { undo(this.view); }
  redo(): void { redo(this.view); }
  focus(): void { this.view.focus(); }
  destroy(): void { this.view.destroy(); }

  /** Makes the text `next`, as one step of the history. */
  replace(next: string): void {
    const changes = difference(this.text, next);
    if (!changes) return;
    this.view.dispatch({ changes, userEvent: "drawing" });
    const line = this.view.state.doc.lineAt(Math.min(changes.from, this.view.state.doc.length)).number;
    this.show(line);
  }

  /** Notes a move in the drawing. */
  move(to: Places, from: Places): void { this.view.dispatch({ effects: moved.of({ to, from }), userEvent: "drawing" }); }

  /** Scrolls to a line, and puts the cursor there if asked to. */
  show(line: number, cursor = false): void {
    const doc = this.view.state.doc;
    const at = doc.line(Math.min(Math.max(line, 1), doc.lines));
    this.view.dispatch({
      ...(cursor ? { selection: { anchor: at.from } } : {}),
      effects: EditorView.scrollIntoView(at.from, { y: "nearest", yMargin: 60 }),
    });
  }

  /** Underlines what the server found. */
  findings(list: Finding[]): void {
    const doc = this.view.state.doc;
    const diagnostics = list.map((finding): Diagnostic => {
      const line = doc.line(Math.min(Math.max(finding.line ?? 1, 1), doc.lines));
      const indent = line.text.length - line.text.trimStart().length;
      const from = Math.min(line.from + Math.max((finding.column ?? 0) - 1, indent), line.to);
      return {
        from, to: Math.max(line.to, from), severity: finding.severity === "error" ? "error" : "info",
        message: finding.hint ? `${finding.message}\n${finding.hint}` : finding.message,
      };
    });
    diagnostics.sort((a, b) => a.from - b.from);
    this.view.dispatch(setDiagnostics(this.view.state, diagnostics));
  }
}

/** What may stand at the cursor, as the server completes it. */
async function complete(context: CompletionContext, document: string) {
  const word = context.matchBefore(/[^\s"'[\](){},=]+/);
  if (!word && !context.explicit) {
    const before = context.state.sliceDoc(Math.max(0, context.pos - 1), context.pos);
    if (before !== " " && before !== "\"") return null;
  }
  const line = context.state.doc.lineAt(context.pos);
  const { typed, items } = await api.complete(context.state.doc.toString(), line.number, context.pos - line.from + 1, document).catch(() => ({ typed: undefined, items: [] }));
  if (!items.length) return null;
  return {
    from: typed !== undefined ? Math.max(line.from, context.pos - typed) : word ? word.from : context.pos,
    options: items.map(({ label, insert, detail }) => ({ label, apply: insert, ...(detail ? { detail } : {}) })),
  };
}
