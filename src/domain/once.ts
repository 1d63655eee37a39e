/** What is made when it is first asked for. */

export interface Once<T> {
  /** Makes it, for all who ask meanwhile and after. What failed is forgotten: whoever comes next may have more luck. */
  get(): Promise<T>
  /** What is there, or is being made; null where nobody has asked. */
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
