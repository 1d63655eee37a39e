/** Text that comes in pieces, without a secret: also where that lies across two of them. Pure. */
export class Hider {
  readonly #secret: string
  /** The end of what came, where the secret may begin there. */
  #held = ''

  constructor(secret: string) {
    this.#secret = secret
  }

  /** Returns what may be shown by now. */
  take(piece: string): string {
    const text = `${this.#held}${piece}`.replaceAll(this.#secret, HIDDEN)
    const shown = text.length - this.#begun(text)
    this.#held = text.slice(shown)
    return text.slice(0, shown)
  }

  /** Returns the rest, once nothing more comes. */
  end(): string {
    return this.#held.length < TELLING ? this.#held : HIDDEN
  }

  /** With how many of its characters, but not all, a text ends. */
  #begun(text: string): number {
    let count = Math.min(this.#secret.length - 1, text.length)
    while (count > 0 && !text.endsWith(this.#secret.slice(0, count))) count--
    return count
  }
}

const HIDDEN = '…'
/** So many of its characters are no chance any more. */
const TELLING = 4
