/** Where the arguments of a call end, as they come in pieces: what belongs to another call waits for that. Pure. */

/** Follows the text of an object to its end, whatever pieces it comes in. */
export class Nesting {
  #depth = 0
  #isInText = false
  #isEscaped = false
  isClosed = false

  take(piece: string): void {
    for (let at = 0; at < piece.length; at++) {
      const char = piece[at]
      if (this.#isEscaped) this.#isEscaped = false
      else if (this.#isInText) {
        if (char === '\\') this.#isEscaped = true
        else if (char === '"') this.#isInText = false
      } else if (char === '"') this.#isInText = true
      else if (char === '{' || char === '[') this.#depth++
      else if ((char === '}' || char === ']') && --this.#depth === 0) this.isClosed = true
    }
  }
}
