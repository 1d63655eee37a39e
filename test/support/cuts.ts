/** Bytes as a network may cut them. */

export const inBytes = (bytes: Uint8Array): Uint8Array[] => inPieces(bytes, [...bytes.keys()])

/** Cuts before each place, in any order: an empty piece for a duplicate, none beyond the end. */
export function inPieces(bytes: Uint8Array, places: readonly number[]): Uint8Array[] {
  const within = places.filter((place) => place > 0 && place < bytes.length).toSorted((a, b) => a - b)
  return [...within, bytes.length].map((edge, at) => bytes.subarray(within[at - 1] ?? 0, edge))
}
