/** Handles texts one at a time; others wait in order. */
export class InOrder {
  readonly #waiting: string[] = []
  #bytes = 0
  #isBusy = false
  #idle: (() => void)[] = []

  constructor(
    private readonly handle: (text: string) => void | Promise<void>,
    /** Maximum length of waiting texts, in UTF-16 units. */
    private readonly most: number,
    /** True if there is not enough memory for that many. */
    private readonly isTooMuch: (bytes: number) => boolean,
    /** Called with null if too much is waiting. */
    private readonly fail: (error: unknown) => void,
  ) {}

  take(text: string): void {
    if (!this.#isBusy) {
      this.#run(text)
      return
    }
    this.#waiting.push(text)
    this.#bytes += text.length
    if (this.#bytes > this.most || this.isTooMuch(this.#bytes)) {
      this.#waiting.length = 0
      this.fail(null)
    }
  }

  pause(): void {
    this.#isBusy = true
  }

  resume(): void {
    this.#isBusy = false
    for (let next = this.#waiting.shift(); next !== undefined && !this.#isBusy; next = this.#waiting.shift()) {
      this.#bytes -= next.length
      this.#run(next)
      if (this.#isBusy) return
    }
    for (const resolve of this.#idle.splice(0)) resolve()
  }

  async idle(): Promise<void> {
    if (this.#isBusy) await new Promise<void>((resolve) => this.#idle.push(resolve))
  }

  #run(text: string): void {
    let handling: void | Promise<void>
    try {
      handling = this.handle(text)
    } catch (error) {
      this.fail(error)
      return
    }
    if (!(handling instanceof Promise)) return
    this.#isBusy = true
    handling.catch(this.fail).finally(() => this.resume())
  }
}
