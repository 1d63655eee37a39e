/** Splits bytes as a network may. */

export const inBytes = (bytes: Uint8Array): Uint8Array[] => inPieces(bytes, [...bytes.keys()])

/** Splits before each position, in any order: a duplicate gives an empty piece, a position beyond the end none. */
export function inPieces(bytes: Uint8Array, places: readonly number[]): Uint8Array[] {
  const within = places.filter((place) => place > 0 && place < bytes.length).toSorted((a, b) => a - b)
  return [...within, bytes.length].map((edge, at) => bytes.subarray(within[at - 1] ?? 0, edge))
}
