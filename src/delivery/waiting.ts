/** What a request waits for before an upstream is asked, which its client reads beside keep-alives. Whoever has it wait says so. */
export class Waiting {
  #note: (() => string) | null = null

  /** @param note says it as of now; null where it waits no more. */
  set = (note: (() => string) | null): void => {
    this.#note = note
  }

  /** As a comment of a stream of server-sent events; null where it waits for nothing. */
  comment(): string | null {
    return this.#note && `: ${this.#note()}\n\n`
  }
}
