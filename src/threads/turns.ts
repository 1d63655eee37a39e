/** For long work on the event loop: lets other work run after each turn of this many ms. */
export class Turns {
  #sinceMs = performance.now()

  constructor(private readonly ms: number) {}

  get isOver(): boolean {
    return performance.now() - this.#sinceMs >= this.ms
  }

  async next(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve))
    this.#sinceMs = performance.now()
  }
}
