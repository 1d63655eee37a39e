/** A wait that can be ended early. One at a time. */
export class Pause {
  #end = () => {}

  /** Resolves after `ms`, or at `end`. */
  wait(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, ms)
    this.#end = () => {
      clearTimeout(timer)
      resolve()
    }
    return promise
  }

  end(): void {
    this.#end()
  }
}
