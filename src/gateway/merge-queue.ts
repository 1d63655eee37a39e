/**
 * Joins several producers into one stream that is read at its reader's pace: `put` resolves once the item was taken, so
 * no producer is more than one item ahead. Pure plumbing; it knows nothing of answers.
 */

interface Funnel<T> extends AsyncIterable<T> {
  /** Resolves true once the item was taken; false where nobody reads any more. */
  put(item: T): Promise<boolean>
  /** Adds the last item. Nothing may be put after it. */
  end(last: T): void
  /** Ends it in an error, which the reader meets after what was put. Nothing may be put after it. */
  fail(error: unknown): void
}

/** @param onLeave called once where the reader leaves before the end. */
export function createFunnel<T>(onLeave: () => void): Funnel<T> {
  const waiting: { item: T; taken(yes: boolean): void }[] = []
  let reader: ((result: IteratorResult<T> | Promise<IteratorResult<T>>) => void) | null = null
  let last: Promise<IteratorResult<T>> | null = null
  let over = false

  const END: IteratorResult<T> = { done: true, value: undefined }

  const take = (): IteratorResult<T> | Promise<IteratorResult<T>> | null => {
    if (over) return END
    const first = waiting.shift()
    if (first) {
      first.taken(true)
      return { done: false, value: first.item }
    }
    if (last === null) return null
    over = true
    return last
  }
  const wake = () => {
    if (reader === null) return
    const result = take()
    if (result === null) return
    const resolve = reader
    reader = null
    resolve(result)
  }
  const finish = (result: Promise<IteratorResult<T>>) => {
    // Its reader may have left.
    result.catch(() => {})
    last = result
    wake()
  }
  const leave = () => {
    if (!over) onLeave()
    over = true
    for (const { taken } of waiting.splice(0)) taken(false)
  }

  return {
    put(item) {
      if (over) return Promise.resolve(false)
      return new Promise((taken) => {
        waiting.push({ item, taken })
        wake()
      })
    },
    end: (item) => finish(Promise.resolve({ done: false, value: item })),
    fail: (error) => finish(Promise.reject(error)),
    [Symbol.asyncIterator]: () => ({
      next() {
        const result = take()
        if (result !== null) return Promise.resolve(result)
        return new Promise((resolve) => {
          reader = resolve
        })
      },
      return() {
        leave()
        return Promise.resolve(END)
      },
    }),
  }
}
