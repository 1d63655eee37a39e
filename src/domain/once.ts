/** Lazily created value. */

export interface Once<T> {
  /** Shared by concurrent callers; after a failure, the next call tries again. */
  get(): Promise<T>
  /** null before the first `get`. */
  begun(): Promise<T> | null
}

export function once<T>(make: () => Promise<T>): Once<T> {
  let made: Promise<T> | null = null
  const forget = (failed: Promise<T>) => {
    if (made === failed) made = null
  }
  return {
    get() {
      if (made !== null) return made
      const making = make()
      made = making
      making.catch(() => forget(making))
      return making
    },
    begun: () => made,
  }
}
