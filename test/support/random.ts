/** Seeded, reproducible random numbers (mulberry32). */

/** Numbers in [0, 1). */
export function createRandom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** Whole numbers in [0, bound). */
export function createPicker(seed: number): (below: number) => number {
  const random = createRandom(seed)
  return (below) => Math.floor(random() * below)
}
