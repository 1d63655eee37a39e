/** Work that is too long for one turn of the event loop: done piece by piece, with pauses in which others have it. */

/** After so long others have their turn. */
const TURN_MS = 8

/** Joins the pieces of a text, each of which takes a moment to make. */
export async function joinInTurns(pieces: Iterable<string>): Promise<string> {
  const made: string[] = []
  let sinceMs = performance.now()
  for (const piece of pieces) {
    made.push(piece)
    if (performance.now() - sinceMs < TURN_MS) continue
    await new Promise((resolve) => setImmediate(resolve))
    sinceMs = performance.now()
  }
  return made.join('')
}
