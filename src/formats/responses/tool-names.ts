/**
 * The names by which a model knows a client's tools: it has functions alone, in one space of names, of at most 64 letters. By the
 * same names an answer's calls are told back as those of the client's own tools. One is made for each request. Pure.
 */

/** A tool as its client names it. */
export type ClientTool =
  | { type: 'function' | 'custom'; name: string; namespace?: string | null }
  | { type: 'local_shell' }

const MAX_CHARS = 64
/** An underscore and 32 bits in hexadecimal. */
const MARK_CHARS = 9

export class ToolNames {
  readonly #names = new Map<string, string>()
  readonly #tools = new Map<string, ClientTool>()

  /** The same for the same tool, another one for each. */
  nameOf(tool: ClientTool): string {
    const key = JSON.stringify(tool.type === 'local_shell' ? [tool.type] : [tool.type, tool.namespace ?? '', tool.name])
    const known = this.#names.get(key)
    if (known !== undefined) return known
    const plain = toPlain(tool)
    const name = plain.length <= MAX_CHARS && !this.#tools.has(plain) ? plain : marked(plain, key)
    this.#names.set(key, name)
    this.#tools.set(name, tool)
    return name
  }

  /** Whose call it is: a model may also call what nobody has offered. */
  toolOf(name: string): ClientTool {
    return this.#tools.get(name) ?? { type: 'function', name }
  }
}

function toPlain(tool: ClientTool): string {
  if (tool.type === 'local_shell') return tool.type
  const full = tool.namespace ? `${tool.namespace}__${tool.name}` : tool.name
  return full.replace(/[^a-zA-Z0-9_-]/g, '_')
}

const marked = (plain: string, key: string) =>
  `${plain.slice(0, MAX_CHARS - MARK_CHARS)}_${Bun.hash
    .xxHash32(key)
    .toString(16)
    .padStart(MARK_CHARS - 1, '0')}`
