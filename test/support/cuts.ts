/** Bytes as a network may cut them. */

/** Cuts bytes into pieces of one byte each. */
export const inBytes = (bytes: Uint8Array): Uint8Array[] => inPieces(bytes, [...bytes.keys()])

/** Cuts bytes before each of these places, in whatever order they are: an empty piece where one comes twice, none beyond the end. */
export function inPieces(bytes: Uint8Array, places: readonly number[]): Uint8Array[] {
  const within = places.filter((place) => place > 0 && place < bytes.length).toSorted((a, b) => a - b)
  return [...within, bytes.length].map((edge, at) => bytes.subarray(within[at - 1] ?? 0, edge))
}
